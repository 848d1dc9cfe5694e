"""Objects of segments that retention removed are deleted, with tiering on and with tiering off."""

from __future__ import annotations

import dataclasses

from lakebed.aof.config import RetentionConfig
from lakebed.aof.log import Aof
from lakebed.aof.manager import AofManager
from lakebed.aof.manifest.config import ManifestConfig
from lakebed.aof.manifest.records import (
    CustomEvent,
    ManifestRecord,
    Tier2DeleteQueued,
    encode_record,
)
from lakebed.base.simulation.world import World
from lakebed.base.units import KIB
from tests.aof.tiers.test_tier_scheduler import SECOND, Unreachable, open_tiered
from tests.aof.tiers.tiered_logs import CONFIG, check_artefacts, contents, open_log, write_segments

QUEUE_BYTES = 256 * KIB
KEEPING_ONE = dataclasses.replace(CONFIG, retention=RetentionConfig(count_max=1))


def uploaded(world: World, count: int) -> list[bytes]:
    """A closed log of that many segments, in Tier 2 alone; their payloads."""
    manager, log = open_tiered(world, config=CONFIG)
    written = write_segments(log, count)
    log.tiers.upload()
    log.tiers.evict(warm=True)
    manager.close()
    return written


def keys(log: Aof) -> list[str]:
    return [info.key for info in log.tiers.cold.store.list("aof2/") if "/segment-" in info.key]


def retained(world: World, *, is_reachable: bool) -> tuple[AofManager, Aof]:
    """Opened without tiering, by when retention has removed all but one segment."""
    manager, log = open_tiered(world, config=KEEPING_ONE)
    if not is_reachable:
        log.tiers.cold.store._store = Unreachable()  # type: ignore[attr-defined]
    world.runner.advance(10 * SECOND)
    assert [info.segment_id for info in log.segments()] == [3]
    return manager, log


def test_with_tiering_off_the_objects_of_removed_segments_are_deleted() -> None:
    world = World(1)
    uploaded(world, 4)
    manager, log = retained(world, is_reachable=True)
    assert [key.split("-")[1] for key in keys(log)] == [f"{3:020}"]
    assert log.manifest is not None
    assert list(log.manifest.index().pending_deletes) == []
    assert [place.segment_id for place in log.tiers.residency()] == [3]
    manager.close()


def test_deletes_that_are_owed_from_before_are_carried_out_after_opening() -> None:
    world = World(2)
    uploaded(world, 4)
    manager, log = retained(world, is_reachable=False)
    manager.close()
    manager, log = open_tiered(world, config=CONFIG)
    assert len(keys(log)) == 4
    world.runner.advance(10 * SECOND)
    assert len(keys(log)) == 1
    manager.close()


def test_with_deletes_owed_tier_2_is_repaired_and_segments_are_brought_back() -> None:
    world = World(3)
    written = uploaded(world, 4)
    manager, log = retained(world, is_reachable=False)
    manager.close()
    manager, log = open_tiered(world, config=CONFIG)
    assert log.tiers.repair() == []
    assert log.tiers.hydrate() == [3]
    assert contents(log) == written[15:]
    manager.close()


def leave_room(log: Aof, size: int) -> None:
    """Fills the queue of the manifest log, whose records are not written meanwhile."""
    assert log.manifest is not None
    while left := QUEUE_BYTES - log.manifest.lag_bytes - size:
        event = CustomEvent(1, bytes((left if left <= 8192 else 4096) - 48))
        log.manifest.append(event, segment_id=0, logical_offset=0)


def test_no_object_is_deleted_whose_segment_stays_for_lack_of_room_in_the_manifest_log() -> None:
    world = World(4)
    manager, log = open_log(world)
    written = write_segments(log, 2)
    log.tiers.upload()
    key = log.tiers.residency()[0].key
    manager.close()
    is_asked = False

    def is_pinned(name: str, segment_id: int) -> bool:
        """Pinned since retention first asked; at that moment the queue has room for one record."""
        nonlocal is_asked
        if not is_asked and segment_id == 0:
            is_asked = True
            delete = ManifestRecord(Tier2DeleteQueued(key), 0, 0, 0)
            leave_room(log, len(encode_record(delete)))
            return False
        return True

    small = ManifestConfig(queue_bytes_max=QUEUE_BYTES, commit_ms=60_000, snapshot_chunks=1000)
    config = dataclasses.replace(KEEPING_ONE, manifest=small)
    manager, log = open_log(world, config=config, is_pinned=is_pinned)
    world.runner.advance(100 * SECOND)
    assert is_asked
    assert contents(log) == written
    assert [place.tiers for place in log.tiers.residency()] == [(0, 1, 2), (0, 1, 2)]
    check_artefacts(world, log)
    manager.close()
