"""What is staged is checked completely before anything is changed, wherever it comes from."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from lakebed.base.errors import InputError, NotFound, TooLarge
from lakebed.base.simulation.world import World
from lakebed.base.units import KIB
from lakebed.keratin.compression import Compression
from lakebed.keratin.paths import TopicPaths
from lakebed.kernels.format import RECORD_BATCH
from lakebed.store import staged_batch
from lakebed.store.staged_batch import Staged, StagedFile, StagedObject
from lakebed.store.store import Store
from lakebed.store.topics import StoreTopic
from tests.keratin.batch_samples import changed
from tests.keratin.partitions import content, flipped
from tests.store.batch_commits import APPLICATION, NAME, batch, topics_of, values_of
from tests.store.queues import ROOT, SMALL, opened

PATHS = TopicPaths(ROOT, NAME).partition(1)
FILES = ["durable_end", "manifest.bin", "segments"]
GOOD = batch(b"good")
TWO = batch(b"one", b"two") + batch(b"three", compression=Compression.ZSTD)
FIRST_BYTES = len(batch(b"one", b"two"))
# The first offset, the leader's epoch: a client may say what it likes, the log has its own.
UNCHECKED = {
    FIRST_BYTES * second + RECORD_BATCH.offset_of(name) + index
    for second in (0, 1)
    for name, size in (("first_offset", 8), ("leader_epoch", 4))
    for index in range(size)
}


@pytest.fixture
def world() -> World:
    return World(1)


@pytest.fixture
def topic(world: World) -> Iterator[StoreTopic]:
    with closing(topics_of(world)) as topics:
        yield topics.create(NAME, partitions=2)


def refused(topic: StoreTopic, world: World, hostile: Any) -> str:
    """Beside a good one for another partition, and behind a good one."""
    with pytest.raises(InputError) as caught:
        topic.commit_batches(APPLICATION, 1, {0: [GOOD], 1: [GOOD, hostile]})
    assert values_of(topic, 0) == values_of(topic, 1) == []
    for number in (0, 1):
        folder = TopicPaths(ROOT, NAME).partition(number).folder
        assert world.disk.names(folder) == FILES
    return str(caught.value)


def test_every_truncation_is_refused_at_its_place(topic: StoreTopic, world: World) -> None:
    for length in range(len(TWO)):
        if length == FIRST_BYTES:
            continue  # one whole batch
        text = refused(topic, world, TWO[:length])
        start = 0 if length < FIRST_BYTES else FIRST_BYTES
        place = "partition 1, batch 1" if length == 0 else f"partition 1, batch 1, byte {start}:"
        assert text.startswith(place)


def test_every_flipped_bit_is_refused(topic: StoreTopic, world: World) -> None:
    for position in range(len(TWO)):
        if position not in UNCHECKED:
            text = refused(topic, world, flipped(TWO, position, position % 8))
            assert text.startswith("partition 1, batch 1, byte ")


def test_what_the_checksum_does_not_cover_is_not_believed(topic: StoreTopic) -> None:
    for version, place in enumerate(sorted(UNCHECKED)):
        for bit in (0, 7):
            hostile = flipped(TWO, place, bit)
            topic.commit_batches(APPLICATION, 2 * version + bit % 2, {1: [hostile]})
    found = [(one.offset, one.value) for one in topic.partition(1).read()]
    expected = [b"one", b"two", b"three"] * (2 * len(UNCHECKED))
    assert found == list(enumerate(expected))


@pytest.mark.parametrize(
    "hostile",
    [
        batch(b"a") + bytes(61),
        batch(b"a") + bytes(1),
        bytes(61),
        b"\xff" * 200,
        changed(batch(b"a", b"b"), last_offset_delta=0),
        changed(batch(b"a", b"b"), message_count=1),
        changed(batch(b"a", b"b"), message_count=1, last_offset_delta=0),
        changed(batch(b"a", b"b"), message_count=3, last_offset_delta=2),
        changed(batch(b"a"), message_count=-1, last_offset_delta=-2),
        changed(batch(b"a"), message_count=0, last_offset_delta=-1),
        changed(batch(b"a"), attributes=7),
        changed(batch(b"a"), attributes=int(Compression.ZSTD)),
        changed(batch(b"a"), b""),
        changed(batch(b"a"), magic=1),
    ],
)
def test_batches_that_lie_with_a_right_checksum_are_refused(
    topic: StoreTopic, world: World, hostile: bytes
) -> None:
    refused(topic, world, hostile)


def test_what_is_too_large_for_the_topic_is_refused(topic: StoreTopic, world: World) -> None:
    message = bytes(SMALL.message_bytes_max + 1)
    assert "a message" in refused(topic, world, batch(message))
    assert "a message" in refused(topic, world, batch(message, compression=Compression.LZ4))
    many = [bytes(60 * KIB)] * 5
    assert "a record batch" in refused(topic, world, batch(*many))
    huge = GOOD[: RECORD_BATCH.size - 4]
    head = RECORD_BATCH.pack(RECORD_BATCH.unpack(GOOD)._replace(length=(1 << 31) - 1))
    assert "a record batch" in refused(topic, world, head + huge)
    with pytest.raises(TooLarge):
        topic.commit_batches(APPLICATION, 1, {0: [batch(message)]})
    # Many small ones may be more than one append can be.
    rest = [batch(*many[:4]) for _ in range(4)]
    assert topic.commit_batches(APPLICATION, 1, {0: rest})[0].count == 16


@pytest.mark.parametrize(
    ("size", "excess"), [(65, "65, the maximum is 64"), (None, "above the maximum of 64")]
)
def test_what_is_too_large_is_named_once(world: World, size: int | None, excess: str) -> None:
    def pieces(_bucket: str, _key: str) -> Iterator[bytes]:
        yield GOOD[: RECORD_BATCH.size]
        raise TooLarge("the row", size=size, limit=64)

    staged = StagedObject("stage", "part")
    with (
        staged_batch.opened(staged, disk=world.disk, read_object=pieces, place="batch 1") as source,
        pytest.raises(TooLarge) as caught,
    ):
        list(staged_batch.record_batches(source, config=SMALL, place="batch 1"))
    assert str(caught.value) == f"batch 1, byte 0: the row is {excess}"
    assert (caught.value.size, caught.value.limit) == (size, 64)


def test_no_bytes_and_other_things_are_refused(topic: StoreTopic, world: World) -> None:
    for hostile in (b"", "text", None, 5, object(), ["x"]):
        assert refused(topic, world, hostile).startswith("partition 1, batch 1")


def test_any_buffer_may_be_given(topic: StoreTopic) -> None:
    buffers: list[Staged] = [
        bytearray(TWO),
        memoryview(TWO),
        memoryview(bytearray(TWO))[:FIRST_BYTES],
    ]
    topic.commit_batches(APPLICATION, 1, {0: buffers})
    assert values_of(topic, 0) == [b"one", b"two", b"three"] * 2 + [b"one", b"two"]


def test_files_are_read_by_the_writer(topic: StoreTopic, world: World) -> None:
    world.disk.make_folder("/stage")
    with world.disk.create("/stage/part") as file:
        file.pwrite(0, TWO)
    topic.commit_batches(APPLICATION, 1, {0: [StagedFile("/stage/part"), GOOD]})
    assert values_of(topic, 0) == [b"one", b"two", b"three", b"good"]
    assert content(world.disk, "/stage/part") == TWO
    for path, error in (("/stage/none", NotFound), ("/stage", InputError)):
        with pytest.raises(error, match="partition 1, batch 0"):
            topic.commit_batches(APPLICATION, 2, {0: [GOOD], 1: [StagedFile(path)]})
    with pytest.raises(InputError, match="there is no object store"):
        topic.commit_batches(APPLICATION, 2, {1: [StagedObject("stage", "part")]})
    assert values_of(topic, 1) == []
    # Who repeats may have removed them.
    world.disk.unlink("/stage/part")
    assert not topic.commit_batches(APPLICATION, 1, {0: [StagedFile("/stage/part")]})[0].is_new


def test_objects_of_the_store_are_read_in_pieces(tmp_path: Path) -> None:
    with opened(tmp_path / "store") as store:
        topic = store.topic("orders")
        values = [b"%d" % number * 20_000 for number in range(10)]
        data = b"".join(batch(value) for value in values * 3)
        store.bucket("stage").put("query/1/0", data)
        (tmp_path / "file").write_bytes(data)
        staged: list[Staged] = [
            StagedObject("stage", "query/1/0"),
            StagedFile(str(tmp_path / "file")),
        ]
        [found] = topic.commit_batches(APPLICATION, 1, {0: staged})
        assert found.count == 60
        assert values_of(topic, 0) == values * 6
        check_missing(store, topic)


def check_missing(store: Store, topic: StoreTopic) -> None:
    for missing in (StagedObject("stage", "none"), StagedObject("none", "none")):
        with pytest.raises(NotFound):
            topic.commit_batches(APPLICATION, 2, {0: [missing]})
    assert store.bucket_names() == ["stage"]
