"""A log with tiers on a simulated machine, and what must hold of it at any moment."""

from __future__ import annotations

from collections.abc import Callable

from lakebed.aof.config import AofConfig, FlushConfig
from lakebed.aof.log import Aof
from lakebed.aof.manager import AofManager
from lakebed.aof.manifest.state import Residency
from lakebed.aof.paths import LogPaths
from lakebed.aof.tiers.config import SharedTierConfig
from lakebed.aof.tiers.names import SegmentKey
from lakebed.aof.tiers.object_store import ObjectStore
from lakebed.aof.tiers.services import TierServices
from lakebed.base.simulation.world import World
from lakebed.base.units import KIB

CONFIG = AofConfig(segment_bytes=64 * KIB, flush=FlushConfig(reserve_bytes=0, flush_ms=1))
PATHS = LogPaths("/store", "orders")


def open_log(
    world: World,
    *,
    config: AofConfig = CONFIG,
    store: ObjectStore | None = None,
    shared: SharedTierConfig | None = None,
    is_pinned: Callable[[str, int], bool] | None = None,
) -> tuple[AofManager, Aof]:
    manager = AofManager(
        "/store",
        config=config,
        tier_config=shared,
        disk=world.disk,
        runner=world.runner,
        object_store=store,
        is_pinned=is_pinned,
    )
    return manager, manager.open("orders")


def payload(number: int) -> bytes:
    return (b"record %05d " % number) * (1 + number * 37 % 300)


def write_segments(log: Aof, count: int, *, records: int = 5) -> list[bytes]:
    """Sealed segments of a few records each; their payloads."""
    written: list[bytes] = []
    for _ in range(count):
        for _ in range(records):
            written.append(payload(len(written)))
            log.append_record_with_timeout(written[-1], 10)
        log.seal_current_segment()
    return written


def contents(log: Aof) -> list[bytes]:
    return [bytes(record.payload) for record in log.read()]


def check_artefacts(world: World, log: Aof, store: ObjectStore | None = None) -> None:
    """The manifest names nothing that is not there, and no segment has two objects."""
    assert log.manifest is not None
    store = store or TierServices("/store", disk=world.disk, runner=world.runner).store("tier2")
    warm = log.tiers.cold.warm_names()
    files = {info.segment_id: info.path for info in log.segments() if info.tier == 0}
    for state in log.manifest.index().segments():
        if state.residency & Residency.TIER0:
            assert world.disk.exists(files[state.segment_id])
        if state.residency & Residency.TIER1:
            assert state.segment_id in warm, f"segment {state.segment_id} has no warm file"
        if state.residency & Residency.TIER2:
            assert store.head(state.key).size == state.compressed_bytes
    keys = [SegmentKey.parse(info.key, prefix="aof2") for info in store.list("aof2/")]
    numbers = [key.segment_id for key in keys if key is not None]
    assert len(numbers) == len(set(numbers)), "a segment has two objects"
