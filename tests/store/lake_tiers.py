"""Stores whose logs have their Tier 2 in the store's own object store."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path

from lakebed.aof.config import AofConfig, FlushConfig
from lakebed.aof.log import Aof
from lakebed.aof.tiers.config import SharedTierConfig
from lakebed.base.simulation.databases import SimulatedDatabases
from lakebed.base.simulation.world import World
from lakebed.base.units import KIB
from lakebed.seglake.config import SeglakeConfig
from lakebed.store.lake_object_store import BUCKET, LakeObjectStore
from lakebed.store.store import Store
from tests.aof.tiers.tiered_logs import contents, write_segments

CONFIG = AofConfig(segment_bytes=64 * KIB, flush=FlushConfig(reserve_bytes=0, flush_ms=1))
SHARED = SharedTierConfig(retry_ms_first=1)
OBJECTS = SeglakeConfig(reserve_bytes=0, cache_bytes=0)  # what is on disk counts


def open_store(
    root: Path, *, config: AofConfig = CONFIG, shared: SharedTierConfig = SHARED
) -> Store:
    return Store.open(root, config=config, tier_config=shared, object_config=OBJECTS)


@contextlib.contextmanager
def simulated_store(world: World, *, shared: SharedTierConfig = SHARED) -> Iterator[Store]:
    """With SQLite on the disk of the world."""
    with (
        contextlib.closing(SimulatedDatabases(world.disk)) as databases,
        Store.open(
            "/store",
            config=CONFIG,
            tier_config=shared,
            object_config=OBJECTS,
            disk=world.disk,
            runner=world.runner,
            connector=databases.connect,
        ) as store,
    ):
        yield store


def write_cold(store: Store, count: int = 3) -> list[bytes]:
    """A log whose segments are in Tier 2 alone; its payloads."""
    log = store.log("orders")
    written = write_segments(log, count)
    assert len(log.tiers.upload()) == count
    assert len(log.tiers.evict(warm=True)) == count
    return written


def check_log(store: Store, written: list[bytes]) -> Aof:
    log = store.log("orders")
    assert contents(log) == written
    return log


def tier2(store: Store) -> LakeObjectStore:
    return LakeObjectStore(lambda: store.lake)


def keys(store: Store) -> list[str]:
    """Of all objects in Tier 2."""
    return sorted(info.key for info in tier2(store).list(""))


def address(root: Path) -> str:
    """Of Tier 2, as the log has recorded it."""
    document = json.loads((root / "aof" / "orders" / "log.json").read_text())
    found: str = document["tier2"]
    return found


def damage_object(root: Path, store: Store, key: str) -> Path:
    """Flip a bit in the first chunk of an object; the file it is in."""
    found = store.lake.objects.get(BUCKET, key)
    chunk = found._found.manifest.chunks[0]
    path = root / "objects" / "segments" / f"{chunk.segment_id}.seg"
    with path.open("r+b") as file:
        file.seek(chunk.offset + chunk.length // 2)
        byte = file.read(1)[0]
        file.seek(-1, 1)
        file.write(bytes([byte ^ 0x10]))
    return path
