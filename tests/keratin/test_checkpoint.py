"""Checkpoints of the active segment: what opening reads, and when they are not used."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from lakebed.base.errors import LakebedError
from lakebed.base.simulation.disk import Crash
from lakebed.base.simulation.world import World
from lakebed.base.units import KIB, MIB
from lakebed.keratin.checkpoint import encode_checkpoint, load_checkpoint
from lakebed.keratin.config import Ack
from lakebed.keratin.format import CHECKPOINT_HEADER
from lakebed.keratin.headers import Producer
from lakebed.keratin.partition import Partition
from lakebed.kernels import crc32c
from tests.keratin.partitions import (
    PATHS,
    append,
    content,
    log_path,
    messages,
    numbered,
    opened,
    replace,
    values,
)

SETTINGS: dict[str, Any] = {"segment_bytes": 64 * MIB, "checkpoint_bytes": 16 * KIB}
PRODUCER_ID = 7


def open_checkpointed(world: World, **settings: Any) -> Partition:
    return opened(world, **{**SETTINGS, **settings})


def produce(partition: Partition, *, batches: int, first: int = 0) -> int:
    """The next sequence; checkpoints are saved on the way, as upkeep does."""
    for batch in range(batches):
        producer = Producer(PRODUCER_ID, 0, first + batch * 10)
        append(partition, *numbered(10), producer=producer)
        partition.upkeep_step()
    return first + batches * 10


def test_what_opening_reads_does_not_grow_with_the_segment() -> None:
    for batches in (20, 200, 2000):
        world = World(1)
        settings = {"index_stride_bytes": 64 * KIB}
        partition = open_checkpointed(world, **settings)
        sequence = produce(partition, batches=batches)
        world.restart(Crash.KILL)
        before = world.disk.read_bytes
        partition = open_checkpointed(world, **settings)
        assert world.disk.read_bytes - before < 2 * SETTINGS["checkpoint_bytes"]
        assert partition.high_watermark() == sequence


@pytest.mark.parametrize("crash", Crash)
def test_messages_sent_again_after_a_crash_are_recognised_on_both_sides_of_it(crash: Crash) -> None:
    world = World(2)
    partition = open_checkpointed(world)
    first = append(partition, *numbered(10), producer=Producer(8, 0, 0))
    sequence = produce(partition, batches=100)
    position = load_checkpoint(world.disk, PATHS.checkpoint).position
    last = append(partition, *numbered(10), producer=Producer(PRODUCER_ID, 0, sequence))
    before = values(partition)
    world.restart(crash)
    partition = open_checkpointed(world)
    assert load_checkpoint(world.disk, PATHS.checkpoint).position == position
    assert append(partition, *numbered(10), producer=Producer(8, 0, 0)) == first
    assert append(partition, *numbered(10), producer=Producer(PRODUCER_ID, 0, sequence)) == last
    assert values(partition) == before
    produce(partition, batches=1, first=sequence + 10)
    assert len(messages(partition)) == len(before) + 10


def test_indexes_are_complete_after_opening_from_a_checkpoint() -> None:
    world = World(3)
    partition = open_checkpointed(world)
    produce(partition, batches=100)
    partition.close()
    expected = [content(world.disk, f"{PATHS.segments}/{0:020}.{kind}") for kind in ("idx", "tidx")]
    partition = open_checkpointed(world)
    found = [content(world.disk, f"{PATHS.segments}/{0:020}.{kind}") for kind in ("idx", "tidx")]
    assert found == expected
    assert [message.offset for message in messages(partition)] == list(range(1000))


def test_a_checkpoint_names_only_what_is_durable() -> None:
    world = World(4)
    partition = open_checkpointed(world, sync_ms_max=60_000)
    for batch in range(40):
        producer = Producer(PRODUCER_ID, 0, batch * 10)
        partition.append_batch(numbered(10), producer=producer, ack=Ack.AFTER_WRITE).result()
    partition.upkeep_step()
    assert load_checkpoint(world.disk, PATHS.checkpoint).next_offset == 400
    world.restart(Crash.POWER)
    assert open_checkpointed(world).high_watermark() == 400


def test_the_checkpoint_of_an_earlier_segment_is_not_used() -> None:
    world = World(5)
    partition = open_checkpointed(world)
    sequence = produce(partition, batches=40)
    partition.seal()
    append(partition, b"in the next one", producer=Producer(PRODUCER_ID, 0, sequence))
    world.restart(Crash.KILL)
    partition = open_checkpointed(world)
    assert partition.high_watermark() == 401
    assert append(partition, *numbered(10), producer=Producer(PRODUCER_ID, 0, 390)) == 390
    assert not partition.problems


def moved(**fields: int) -> Callable[[bytes], bytes]:
    """A whole checkpoint that says something else."""

    def change(data: bytes) -> bytes:
        header = CHECKPOINT_HEADER.unpack(data)
        header = header._replace(
            **{name: getattr(header, name) + by for name, by in fields.items()}
        )
        body = data[CHECKPOINT_HEADER.size :]
        start = CHECKPOINT_HEADER.pack(header)[: CHECKPOINT_HEADER.offset_of("crc32c")]
        return CHECKPOINT_HEADER.pack(header._replace(crc32c=crc32c(start, crc32c(body)))) + body

    return change


CHANGES: dict[str, tuple[Callable[[bytes], bytes], bool]] = {
    "cut short": (lambda data: data[:-1], True),
    "empty": (lambda _: b"", True),
    "zeros": (lambda data: bytes(len(data)), True),
    "a flipped bit": (lambda data: data[:-1] + bytes([data[-1] ^ 1]), True),
    "a newer version": (moved(version=1), False),
    "beyond the log's end": (moved(position=1 << 20, last_position=1 << 20), False),
    "not where a record ends": (moved(position=1), False),
    "not where a record begins": (moved(last_position=1), False),
    "another offset": (moved(next_offset=1), False),
    "another file of the same name": (moved(created_ms=1), False),
}


@pytest.mark.parametrize("what", CHANGES)
def test_a_checkpoint_that_cannot_be_used_is_scanned_for_instead(what: str) -> None:
    change, is_reported = CHANGES[what]
    world = World(6)
    partition = open_checkpointed(world)
    first = append(partition, *numbered(10), producer=Producer(8, 0, 0))
    produce(partition, batches=40)
    before = values(partition)
    world.restart(Crash.KILL)
    replace(world.disk, PATHS.checkpoint, change(content(world.disk, PATHS.checkpoint)))
    read = world.disk.read_bytes
    partition = open_checkpointed(world)
    assert world.disk.read_bytes - read > len(content(world.disk, log_path(0)))
    assert values(partition) == before
    assert append(partition, *numbered(10), producer=Producer(8, 0, 0)) == first
    assert bool(partition.problems) == is_reported


def test_a_missing_checkpoint_is_scanned_for_and_saved_again() -> None:
    world = World(7)
    partition = open_checkpointed(world)
    produce(partition, batches=40)
    world.restart(Crash.KILL)
    world.disk.unlink(PATHS.checkpoint)
    partition = open_checkpointed(world)
    partition.upkeep_step()
    found = load_checkpoint(world.disk, PATHS.checkpoint)
    assert found.next_offset == partition.high_watermark() == 400
    assert [run.message_count for run in found.runs] == [400]


def test_an_older_copy_of_the_log_is_scanned() -> None:
    world = World(8)
    partition = open_checkpointed(world)
    produce(partition, batches=10)
    older = content(world.disk, log_path(0))
    produce(partition, batches=30, first=100)
    partition.close()
    replace(world.disk, log_path(0), older)
    partition = open_checkpointed(world)
    assert [message.offset for message in messages(partition)] == list(range(100))


def test_a_checkpoint_that_cannot_be_written_fails_no_append() -> None:
    world = World(9)
    partition = open_checkpointed(world)
    append(partition, *numbered(400))
    world.disk.faults.fail("rename", nth=1)
    partition.upkeep_step()
    assert not world.disk.exists(PATHS.checkpoint)
    append(partition, *numbered(400))
    partition.upkeep_step()
    assert load_checkpoint(world.disk, PATHS.checkpoint).next_offset == 800


def test_damage_after_the_checkpoint_is_found_when_it_is_opened() -> None:
    world = World(10)
    partition = open_checkpointed(world)
    produce(partition, batches=40)
    position = load_checkpoint(world.disk, PATHS.checkpoint).position
    append(partition, b"damaged")
    append(partition, b"whole")
    world.restart(Crash.KILL)
    world.disk.flip_bit(log_path(0), offset=position + 40)
    partition = open_checkpointed(world)
    assert partition.problems
    assert values(partition)[-1] == b"whole"


def test_damage_before_the_checkpoint_is_found_by_its_reader() -> None:
    world = World(11)
    partition = open_checkpointed(world)
    produce(partition, batches=40)
    partition.close()
    world.disk.flip_bit(log_path(0), offset=200)
    partition = open_checkpointed(world)
    with pytest.raises(LakebedError):
        messages(partition)
    assert append(partition, b"more") == 400


def test_a_large_checkpoint_is_not_written_for_little() -> None:
    world = World(12)
    partition = open_checkpointed(world, checkpoint_bytes=4 * KIB)
    for producer_id in range(1000):
        append(partition, b"one", producer=Producer(producer_id, 0, 0))
    partition.upkeep_step()
    saved = content(world.disk, PATHS.checkpoint)
    append(partition, *numbered(100))
    partition.upkeep_step()
    assert content(world.disk, PATHS.checkpoint) == saved
    append(partition, *numbered(1500))
    partition.upkeep_step()
    assert content(world.disk, PATHS.checkpoint) != saved


def test_what_was_saved_is_what_is_loaded() -> None:
    world = World(13)
    partition = open_checkpointed(world)
    produce(partition, batches=40)
    found = load_checkpoint(world.disk, PATHS.checkpoint)
    assert encode_checkpoint(found) == content(world.disk, PATHS.checkpoint)
    assert found.size == len(encode_checkpoint(found))
