"""A log whose tiers drive themselves, and a Tier 2 of another machine that may misbehave."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable
from random import Random

from lakebed.aof.config import AofConfig
from lakebed.aof.log import Aof
from lakebed.aof.manager import AofManager
from lakebed.aof.manifest.records import (
    UploadDone,
    UploadFailed,
    UploadStarted,
)
from lakebed.aof.manifest.state import Residency
from lakebed.aof.tiers.config import SharedTierConfig, TierConfig
from lakebed.aof.tiers.names import SegmentKey
from lakebed.base.errors import LakebedError
from lakebed.base.simulation.world import World
from lakebed.base.units import KIB
from tests.aof.tiers.tiered_logs import (
    CONFIG,
    check_artefacts,
)
from tests.fakes.object_store import FakeObjectStore, Trouble

MS = 10**6
SECOND = 10**9
TIERED = dataclasses.replace(
    CONFIG, tiers=TierConfig(tiering_enabled=True, tier0_bytes_max=256 * KIB)
)
SHARED = SharedTierConfig(tier1_bytes_max=64 * KIB)
CHANCES = {
    Trouble.UNAVAILABLE: 0.15,
    Trouble.THROTTLED: 0.1,
    Trouble.LOST_ANSWER: 0.15,
    Trouble.CORRUPTED: 0.05,
    Trouble.TRUNCATED: 0.05,
}


def fake_of(world: World) -> FakeObjectStore:
    return FakeObjectStore(world.runner, Random(f"tier 2 {world.seed}"))


def open_tiered(
    world: World,
    store: FakeObjectStore,
    *,
    config: AofConfig = TIERED,
    shared: SharedTierConfig = SHARED,
    is_pinned: Callable[[str, int], bool] | None = None,
) -> tuple[AofManager, Aof]:
    store.runner = world.runner
    manager = AofManager(
        "/store",
        config=config,
        tier_config=shared,
        disk=world.disk,
        runner=world.runner,
        object_store=store,
        random=Random(f"manager {world.seed}"),
        is_pinned=is_pinned,
    )
    return manager, manager.open("orders")


def calm(store: FakeObjectStore) -> None:
    store.chances = {}
    store.delay_ns_max = store.list_lag_ns = 0
    store.is_down = store.refuses = False


def segment_objects(store: FakeObjectStore) -> list[int]:
    keys = [SegmentKey.parse(key, prefix="aof2") for key in store.objects]
    return sorted(key.segment_id for key in keys if key is not None)


def recorded(log: Aof, segment_id: int) -> list[object]:
    """What the manifest log says of a segment's way to Tier 2, as it is on disk."""
    assert log.manifest is not None
    log.manifest.commit()
    records = (placed.record for placed in log.manifest.reader().records())
    kinds = (UploadStarted, UploadFailed, UploadDone)
    return [r.payload for r in records if r.segment_id == segment_id and type(r.payload) in kinds]


def check_settled(world: World, log: Aof, store: FakeObjectStore) -> None:
    """Every sealed segment has one object, and nothing is left to be done."""
    assert log.manifest is not None
    index = log.manifest.index()
    sealed = [state for state in index.segments() if state.is_sealed]
    assert all(state.residency & Residency.TIER2 for state in sealed)
    assert not [state for state in sealed if state.pending or state.needs_repair]
    assert not index.pending_deletes
    assert segment_objects(store) == [state.segment_id for state in sealed]
    check_artefacts(world, log, store)


def attempt(action: Callable[[], object]) -> None:
    """Do it, if it can be done."""
    with contextlib.suppress(LakebedError):
        action()
