"""What opening a damaged partition reports: its problems, the damage ledger, the quarantine."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from lakebed.base.damage_ledger import DamageLedger, DamageRecord
from lakebed.base.runner import ThreadRunner
from lakebed.base.simulation.world import World
from lakebed.keratin.format import RECORDS_START
from lakebed.keratin.partition_verification import verify_partition
from lakebed.keratin.paths import SegmentFile, TopicPaths
from lakebed.keratin.topics import Topics
from lakebed.kernels.disk import real_disk
from tests.keratin.partitions import (
    PATHS,
    append,
    content,
    flipped,
    log_path,
    quarantined,
    replace,
    small,
    values,
)

VALUES = [b"message %d" % number for number in range(12)]


@dataclasses.dataclass
class Losses:
    """What opening a partition has reported."""

    problems: list[str]
    records: list[DamageRecord]
    kept: list[bytes | None]


def topics_of(world: World) -> Topics:
    damage = DamageLedger(world.disk, "/store", runner=world.runner)
    return Topics("/store", disk=world.disk, runner=world.runner, config=small(), damage=damage)


def opened_losses(world: World) -> Losses:
    topics = topics_of(world)
    partition = topics.open("orders").partition(0)
    kept = [message.value for message in partition.read(skip_damage=True)]
    topics.close()
    records = DamageLedger(world.disk, "/store", runner=world.runner).list()
    return Losses(list(partition.problems), records, kept)


def written(*, start_offset: int = 0) -> World:
    """A partition with segments of four messages from 0, 4 and 8 on; the last one is active."""
    world = World(1)
    topics = topics_of(world)
    partition = topics.create("orders").partition(0)
    for number, value in enumerate(VALUES):
        if number in (4, 8):
            partition.seal()
        append(partition, value)
    partition.truncate_before(start_offset)
    topics.close()
    return world


@pytest.mark.parametrize("base", [4, 8])
def test_only_messages_that_had_not_been_removed_before_are_lost(base: int) -> None:
    world = written(start_offset=base + 1)
    world.disk.unlink(log_path(base))
    assert verify_partition(world.disk, PATHS).lost_offsets[0] == (base + 1, base + 4)
    losses = opened_losses(world)
    assert any(f"offsets {base + 1} to {base + 3} are lost" in text for text in losses.problems)
    [record] = losses.records
    assert (record.first_offset, record.next_offset) == (base + 1, base + 4)


def test_of_a_segment_that_was_cut_only_messages_after_the_start_are_lost() -> None:
    world = written(start_offset=6)
    world.disk.unlink(PATHS.segment(4, SegmentFile.INDEX))  # so that recovery looks at the log
    replace(world.disk, log_path(4), content(world.disk, log_path(4))[:RECORDS_START])
    losses = opened_losses(world)
    assert losses.problems[0].endswith("; offsets 6 to 7 are lost")
    assert losses.problems[1].endswith("; offsets 6 to 7 may be lost")
    [record] = losses.records
    assert (record.first_offset, record.next_offset) == (6, 8)
    assert opened_losses(world) == dataclasses.replace(losses, problems=[]), "it was repaired"


@pytest.mark.parametrize("base", [4, 8])
def test_a_damaged_header_is_on_record_and_saved(base: int) -> None:
    world = written()
    path = log_path(base)
    world.disk.unlink(PATHS.manifest)  # so that recovery looks at the log
    damaged = flipped(content(world.disk, path), 20)
    replace(world.disk, path, damaged)
    losses = opened_losses(world)
    assert losses.kept == VALUES
    problem = "the checksum of the log header is wrong"
    assert f"{path}: at byte 0: {problem}" in losses.problems[0]
    assert losses.problems[1:] == ([f"{path}: repaired: at byte 0: {problem}"] if base < 8 else [])
    [record] = losses.records
    assert (record.start, record.end, record.first_offset) == (0, RECORDS_START, None)
    assert [f"/store/{one}" for one in record.saved] == [
        f"{PATHS.quarantine}/{name}" for name in world.disk.names(PATHS.quarantine)
    ]
    assert quarantined(world.disk) == [damaged[:RECORDS_START]]


def test_lost_messages_are_reported_in_words() -> None:
    world = written()
    world.disk.unlink(PATHS.manifest)
    world.disk.flip_bit(log_path(4), offset=RECORDS_START + 34)
    losses = opened_losses(world)
    assert losses.problems[-1] == (
        f"{log_path(4)}: repaired: at byte {RECORDS_START}: a record has a wrong checksum; "
        "offset 4 may be lost"
    )


def test_damage_of_a_topic_with_the_longest_name_is_saved(tmp_path: Path) -> None:
    name = "t" * 249
    with ThreadRunner() as runner:
        topics = Topics(tmp_path, disk=real_disk(), runner=runner, config=small())
        partition = topics.create(name).partition(0)
        for value in VALUES:
            append(partition, value)
            partition.seal()
        topics.close()
        paths = TopicPaths(tmp_path, name).partition(0)
        Path(paths.segment(1, SegmentFile.INDEX)).unlink()
        log = Path(paths.segment(1, SegmentFile.LOG))
        log.write_bytes(flipped(log.read_bytes(), RECORDS_START + 34))
        topics = Topics(tmp_path, disk=real_disk(), runner=runner, config=small())
        assert values(topics.open(name).partition(0)) == [VALUES[0], *VALUES[2:]]
        topics.close()
    assert len(list((tmp_path / "quarantine").iterdir())) == 1
