"""Batch commits: once, recognised by application and version, a partition as a whole."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from lakebed.base.clock import NS_PER_MS, NS_PER_S
from lakebed.base.damage_ledger import load_ledger
from lakebed.base.errors import (
    BadName,
    Closed,
    Corrupt,
    DiskError,
    InputError,
    NoSpace,
    NotFound,
    UnknownVersion,
)
from lakebed.base.simulation.disk import Crash
from lakebed.base.simulation.world import World
from lakebed.base.units import KIB
from lakebed.keratin.compression import Compression
from lakebed.keratin.format import COMMIT_HEADER
from lakebed.keratin.headers import Producer
from lakebed.keratin.paths import TopicPaths
from lakebed.keratin.upkeep import LOOK_EVERY_NS
from lakebed.kernels import crc32c
from lakebed.store.read_only_topic import ReadOnlyTopic
from lakebed.store.staged_batch import CommittedPartition
from lakebed.store.topic_verification import verify_topic
from lakebed.store.topics import StoreTopic, StoreTopics
from tests.keratin.partitions import content, flipped
from tests.keratin.partitions import replace as replace_file
from tests.store.batch_commits import (
    APPLICATION,
    NAME,
    batch,
    names_of,
    staged,
    topics_of,
    values_of,
)
from tests.store.queues import GROUP, ROOT, SMALL

PATHS = TopicPaths(ROOT, NAME).partition(0)
PIECES = staged(names_of(1, 0, 16), at_once=2, padding=3000)  # 48 KiB: several writes and segments


@contextmanager
def opened(world: World, *, partitions: int = 1, **settings: Any) -> Iterator[StoreTopic]:
    with closing(topics_of(world, config=replace(SMALL, **settings))) as topics:
        yield topics.ensure(NAME, partitions=partitions)


def interrupted(topic: StoreTopic, world: World, *, nth: int = 2) -> None:
    """Version 1 finds the disk full when some of it is in the log."""
    world.disk.faults.fail("pwrite", nth=nth + 2, code=errno.ENOSPC)  # two are of `commit.bin`
    with pytest.raises(NoSpace):
        topic.commit_batches(APPLICATION, 1, {0: PIECES})
    assert world.disk.exists(PATHS.commit)
    topic.partition(0).sync()


def padded(version: int, count: int, padding: int) -> list[bytes]:
    return [name.ljust(padding, b".") for name in names_of(version, 0, count)]


WHOLE = padded(1, 16, 3000)


def test_a_version_is_appended_once_and_answered_alike_again() -> None:
    world = World(1)
    with opened(world, partitions=2) as topic:
        topic.append_batch([b"before"], partition=0).result()
        batches = {1: [batch(b"x")], 0: [batch(b"a", b"b") + batch(b"c"), batch(b"d")]}
        found = topic.commit_batches(APPLICATION, 7, batches)
        assert found == [CommittedPartition(0, True, 1, 4), CommittedPartition(1, True, 0, 1)]
        again = [replace(one, is_new=False) for one in found]
        for repeated in (batches, {0: [batch(b"others")], 1: []}):
            assert topic.commit_batches(APPLICATION, 7, repeated) == again
        assert values_of(topic, 0) == [b"before", b"a", b"b", b"c", b"d"]
        assert values_of(topic, 1) == [b"x"]
    with opened(world, partitions=2) as topic:
        assert topic.commit_batches(APPLICATION, 7, batches) == again
        assert values_of(topic, 0) == [b"before", b"a", b"b", b"c", b"d"]


def test_a_version_before_the_last_is_known_and_no_more_than_that() -> None:
    with opened(World(1)) as topic:
        topic.commit_batches(APPLICATION, 5, {0: [batch(b"five")]})
        topic.commit_batches(APPLICATION, 9, {0: [batch(b"nine")]})
        for version in (0, 4, 5, 8):
            found = topic.commit_batches(APPLICATION, version, {0: [batch(b"old")]})
            assert found == [CommittedPartition(0, False, None, 0)]
        found = topic.commit_batches(APPLICATION, 9, {0: [batch(b"old")]})
        assert found == [CommittedPartition(0, False, 1, 1)]
        assert values_of(topic, 0) == [b"five", b"nine"]


def test_applications_and_partitions_count_for_themselves() -> None:
    with opened(World(1), partitions=2) as topic:
        for application in ("a", "b", "é\U0001f980"):
            topic.commit_batches(application, 1, {0: [batch(application.encode())]})
        found = topic.commit_batches("a", 1, {0: [batch(b"no")], 1: [batch(b"yes")]})
        assert [one.is_new for one in found] == [False, True]
        assert values_of(topic, 0) == [b"a", b"b", "é\U0001f980".encode()]
        assert values_of(topic, 1) == [b"yes"]


def test_a_version_without_messages_is_a_version() -> None:
    world = World(1)
    with opened(world) as topic:
        topic.append_batch([b"one"], partition=0).result()
        assert topic.commit_batches(APPLICATION, 3, {}) == []
        assert topic.commit_batches(APPLICATION, 3, {0: []}) == [CommittedPartition(0, True, 1, 0)]
    with opened(world) as topic:
        found = topic.commit_batches(APPLICATION, 3, {0: [batch(b"late")]})
        assert found == [CommittedPartition(0, False, 1, 0)]
        assert values_of(topic, 0) == [b"one"]


@pytest.mark.parametrize("compression", Compression)
def test_batches_of_every_compression_keep_what_is_in_them(compression: Compression) -> None:
    with opened(World(1)) as topic:
        given = batch(
            b"first",
            None,
            keys=[b"k", b"gone"],
            headers=[[("trace", b"1")], []],
            compression=compression,
            producer=Producer(5, 1, 99),
            first_offset=4711,
        )
        topic.commit_batches(APPLICATION, 1, {0: [given]})
        one, two = topic.partition(0).read()
        assert (one.offset, one.key, one.value, one.headers) == (
            0,
            b"k",
            b"first",
            (("trace", b"1"),),
        )
        assert (two.offset, two.key, two.value) == (1, b"gone", None)


def test_readers_see_all_of_it_at_once_if_it_fits_into_a_segment() -> None:
    with opened(World(1), batch_bytes_max=4 * KIB) as topic:
        partition, seen = topic.partition(0), []
        partition.on_durable(lambda: seen.append(partition.high_watermark()))
        topic.append_batch([bytes(9000)], partition=0).result()
        topic.commit_batches(
            APPLICATION, 1, {0: staged(names_of(1, 0, 10), at_once=1, padding=1000)}
        )
        assert set(seen) == {1, 11}
        topic.commit_batches(APPLICATION, 2, {0: PIECES})
        assert seen[-1] == 27


def test_what_is_answered_is_durable_whatever_the_topic_asks_of_others() -> None:
    world = World(1)
    with opened(world, ack="after_write", sync_ms_max=60_000) as topic:
        topic.commit_batches(APPLICATION, 1, {0: PIECES})
        copy = world.copy()
    copy.restart(Crash.POWER)
    with opened(copy) as topic:
        assert values_of(topic, 0) == WHOLE


def test_two_callers_of_one_version_commit_it_once() -> None:
    for seed in range(10):
        world = World(seed)
        with opened(world, partitions=2) as topic:
            calls = [
                world.runner.call(
                    by,
                    partial(
                        topic.commit_batches,
                        APPLICATION,
                        1,
                        {n: [batch(by.encode())] for n in order},
                    ),
                )
                for by, order in (("a", (0, 1)), ("b", (1, 0)), ("c", (0, 1)))
            ]
            world.runner.run()
            found = [call.result() for call in calls]
            assert [sum(one[n].is_new for one in found) for n in (0, 1)] == [1, 1]
            assert {one[0].base_offset for one in found} == {0}
            assert values_of(topic, 0) == values_of(topic, 1)
            assert len(values_of(topic, 0)) == 1


def test_a_full_disk_interrupts_and_whoever_repeats_it_completes_it() -> None:
    for nth in (1, 2, 3, 4):
        world = World(nth)
        with opened(world) as topic:
            interrupted(topic, world, nth=nth)
            topic.append_batch([b"others"], partition=0).result()
            [found] = topic.commit_batches(APPLICATION, 1, {0: [batch(b"not these")]})
            assert (found.is_new, found.count) == (False, 16)
            stored = values_of(topic, 0)
            assert stored.count(b"others") == 1
            assert [value for value in stored if value != b"others"] == WHOLE
            assert not world.disk.exists(PATHS.commit)


def test_what_was_interrupted_is_completed_before_another_application_commits() -> None:
    world = World(1)
    with opened(world) as topic:
        interrupted(topic, world)
        [found] = topic.commit_batches("another", 1, {0: [batch(b"behind")]})
        assert found == CommittedPartition(0, True, 16, 1)
        assert values_of(topic, 0) == [*WHOLE, b"behind"]


def test_what_was_interrupted_is_completed_when_the_topic_is_opened() -> None:
    for crash in (None, *Crash):
        world = World(1)
        with opened(world) as topic:
            interrupted(topic, world)
            copy = world.copy()
        if crash is not None:
            world = copy
            world.restart(crash)
        with opened(world) as topic:
            assert values_of(topic, 0) == WHOLE
            assert not world.disk.exists(PATHS.commit)
            [found] = topic.commit_batches(APPLICATION, 1, {0: [batch(b"x")]})
            assert found == CommittedPartition(0, False, 0, 16)


def test_a_topic_opens_though_there_is_no_room_to_complete_what_was_interrupted() -> None:
    world = World(1)
    with opened(world) as topic:
        interrupted(topic, world)
    world.disk.capacity_bytes = 1 << 38
    with opened(world, reserve_bytes=1 << 39) as topic:
        assert "not completed" in topic.partition(0).problems[0]
        assert WHOLE[: len(values_of(topic, 0))] == values_of(topic, 0)
        with pytest.raises(NoSpace):
            topic.commit_batches(APPLICATION, 1, {0: [batch(b"x")]})
        world.disk.capacity_bytes = 1 << 40
        assert topic.commit_batches(APPLICATION, 1, {0: []}) == [
            CommittedPartition(0, False, 0, 16)
        ]
        assert values_of(topic, 0) == WHOLE


@pytest.mark.parametrize("reopens", [False, True])
def test_producers_that_are_forgotten_meanwhile_double_nothing(reopens: bool) -> None:
    world = World(1)
    with opened(world, producer_ms=1000) as topic:
        interrupted(topic, world)
        written = len(values_of(topic, 0))
        assert 0 < written < 16
        for _ in range(3):  # each begins a segment, and forgets
            world.runner.advance(5000 * NS_PER_MS)
            topic.append_batch([bytes(15_000)], partition=0).result()
            topic.partition(0).seal()
        if not reopens:
            topic.commit_batches(APPLICATION, 1, {0: []})
            assert [one for one in values_of(topic, 0) if one != bytes(15_000)] == WHOLE
    with opened(world, producer_ms=1000) as topic:
        assert [one for one in values_of(topic, 0) if one != bytes(15_000)] == WHOLE


def test_what_is_interrupted_again_and_again_is_still_there_once() -> None:
    world = World(1)
    with opened(world) as topic:
        interrupted(topic, world, nth=1)
        for index in range(7):
            topic.append_batch([b"other %d" % index], partition=0).result()
            world.disk.faults.fail("pwrite", nth=2, code=errno.ENOSPC)
            with pytest.raises(NoSpace):
                topic.commit_batches("another", 1, {0: [batch(b"x")]})
        [found] = topic.commit_batches(APPLICATION, 1, {0: []})
        assert found.count == 16
        ours = [one for one in values_of(topic, 0) if one and not one.startswith(b"other")]
        assert ours == WHOLE


def test_a_full_disk_before_anything_was_written_changes_nothing() -> None:
    world = World(1)
    with opened(world, reserve_bytes=KIB) as topic:
        world.disk.capacity_bytes = world.disk.used_bytes() + 60 * KIB
        with pytest.raises(NoSpace):
            topic.commit_batches(APPLICATION, 1, {0: PIECES})
        assert world.disk.names(PATHS.folder) == ["durable_end", "manifest.bin", "segments"]
        assert topic.commit_batches(APPLICATION, 1, {0: [batch(b"less")]})[0].is_new


def test_a_damaged_ledger_is_an_error_and_never_an_empty_one() -> None:
    world = World(1)
    with opened(world) as topic:
        topic.commit_batches(APPLICATION, 1, {0: [batch(b"one")]})
    world.disk.flip_bit(PATHS.ledger, offset=100)
    with opened(world) as topic:
        for _ in range(2):
            with pytest.raises(Corrupt, match=r"commits\.json"):
                topic.commit_batches(APPLICATION, 1, {0: [batch(b"one")]})
        topic.append_batch([b"two"], partition=0).result()
        assert values_of(topic, 0) == [b"one", b"two"]


def test_a_damaged_ledger_keeps_what_was_interrupted() -> None:
    world = World(1)
    with opened(world) as topic:
        topic.commit_batches(APPLICATION, 0, {0: []})
        interrupted(topic, world)
    good = content(world.disk, PATHS.ledger)
    replace_file(world.disk, PATHS.ledger, b"{}")
    with opened(world) as topic:
        assert "commits.json" in topic.partition(0).problems[0]
        with pytest.raises(Corrupt):
            topic.commit_batches("another", 1, {0: [batch(b"x")]})
        assert world.disk.exists(PATHS.commit)
    replace_file(world.disk, PATHS.ledger, good)
    with opened(world) as topic:
        assert values_of(topic, 0) == WHOLE


def test_a_damaged_commit_is_set_aside_and_told() -> None:
    world = World(1)
    with opened(world) as topic:
        interrupted(topic, world, nth=1)
    data = flipped(content(world.disk, PATHS.commit), 5000)
    replace_file(world.disk, PATHS.commit, data)
    with opened(world) as topic:
        [problem] = topic.partition(0).problems
        assert "commit.bin" in problem
        [name] = world.disk.names(PATHS.quarantine)
        assert content(world.disk, f"{PATHS.quarantine}/{name}") == data
        [record] = load_ledger(world.disk, ROOT).records
        assert record.path == "topics/orders/0/commit.bin"
        assert record.saved == (f"quarantine/{name}",)
        assert topic.commit_batches(APPLICATION, 2, {0: [batch(b"goes on")]})[0].is_new


def test_a_damaged_commit_that_could_not_be_moved_at_once_is_recorded_once() -> None:
    damaged = World(1)
    with opened(damaged) as topic:
        interrupted(topic, damaged, nth=1)
    data = flipped(content(damaged.disk, PATHS.commit), 5000)
    replace_file(damaged.disk, PATHS.commit, data)
    recorded_counts = []
    for nth in range(1, 10):
        world = damaged.copy()
        world.disk.faults.fail("rename", nth=nth)
        with suppress(DiskError), opened(world):
            pass
        recorded_counts.append(len(load_ledger(world.disk, ROOT).records))
        world.disk.faults.forget_planned()
        world.clock.advance(NS_PER_S)
        with opened(world):
            [record] = load_ledger(world.disk, ROOT).records
            [saved] = record.saved
            assert content(world.disk, f"{ROOT}/{saved}") == data
    assert {0, 1} <= set(recorded_counts), "failed before the record and after it"


def test_a_commit_of_a_newer_version_is_left_to_a_newer_program() -> None:
    world = World(1)
    with opened(world) as topic:
        interrupted(topic, world, nth=1)
    data = content(world.disk, PATHS.commit)
    header = COMMIT_HEADER.pack(COMMIT_HEADER.unpack(data)._replace(version=2))
    checked = header[: COMMIT_HEADER.offset_of("crc32c")]
    crc = crc32c(checked).to_bytes(4, "big")
    replace_file(world.disk, PATHS.commit, checked + crc + data[COMMIT_HEADER.size :])
    with opened(world) as topic:
        with pytest.raises(UnknownVersion):
            topic.commit_batches(APPLICATION, 1, {0: [batch(b"x")]})
        topic.append_batch([b"fine"], partition=0).result()
        assert world.disk.exists(PATHS.commit)


def exchange(topics: StoreTopics) -> None:
    topics.delete(NAME)
    topics.create(NAME)


def test_a_topic_that_is_deleted_takes_no_commits_and_leaves_nothing_to_its_namesake() -> None:
    for seed in range(80):
        world = World(seed)
        with closing(topics_of(world)) as topics:
            old = topics.create(NAME)
            commit = world.runner.call(
                "commit", partial(old.commit_batches, APPLICATION, 1, {0: PIECES})
            )

            deletion = world.runner.call("delete", partial(exchange, topics))
            world.runner.run()
            deletion.result()
            with suppress(Closed):
                assert commit.result()[0].count == 16
            with pytest.raises(Closed):
                old.commit_batches(APPLICATION, 2, {0: [batch(b"late")]})
            new = topics.open(NAME)
            assert values_of(new, 0) == []
            assert world.disk.names(PATHS.folder) == ["durable_end", "manifest.bin", "segments"]
            assert new.commit_batches(APPLICATION, 1, {0: [batch(b"new")]})[0].is_new


def test_retention_and_compaction_do_not_make_a_version_new() -> None:
    world = World(1)
    settings: dict[str, Any] = {"compact": True, "retention_ms": 3_600_000}
    with opened(world, **settings) as topic:
        for version in range(1, 4):
            keys = [b"a", b"b"]
            topic.commit_batches(
                APPLICATION, version, {0: [batch(b"%d" % version, b"x", keys=keys)]}
            )
            topic.partition(0).seal()
        world.runner.advance(2 * LOOK_EVERY_NS)
        assert values_of(topic, 0) == [b"3", b"x"]
        topic.partition(0).truncate_before(6)
        assert not topic.commit_batches(APPLICATION, 3, {0: [batch(b"again")]})[0].is_new
    with opened(world, **settings) as topic:
        assert not topic.commit_batches(APPLICATION, 3, {0: [batch(b"again")]})[0].is_new
        assert topic.commit_batches(APPLICATION, 4, {0: [batch(b"4", keys=[b"a"])]})[0].is_new
        assert values_of(topic, 0) == [b"4"]


def test_readers_beside_the_writer_and_verification_do_not_mind_the_files() -> None:
    world = World(1)
    with opened(world) as topic:
        topic.commit_batches("another", 1, {0: [batch(b"first")]})
        interrupted(topic, world)
        beside = ReadOnlyTopic(ROOT, NAME, disk=world.disk, runner=world.runner, group_config=GROUP)
        found = [message.value for message in beside.partition(0).read()]
        assert found == values_of(topic, 0)
        report = verify_topic(world.disk, ROOT, NAME, runner=world.runner, progress=lambda *_: None)
        assert not report.problems
        assert not report.notes


@pytest.mark.parametrize(
    ("application", "version", "error"),
    [
        ("", 1, BadName),
        ("x" * 257, 1, BadName),
        ("\udc80", 1, BadName),
        (7, 1, BadName),
        ("x" * 256, -1, InputError),
        ("a", 1 << 63, InputError),
        ("a", True, InputError),
        ("a", 1.0, InputError),
    ],
)
def test_names_and_versions_that_cannot_be_are_refused(
    application: Any, version: Any, error: type[Exception]
) -> None:
    with opened(World(1)) as topic:
        with pytest.raises(error):
            topic.commit_batches(application, version, {0: [batch(b"x")]})
        assert topic.commit_batches("x" * 256, (1 << 63) - 1, {0: [batch(b"x")]})[0].is_new


@pytest.mark.parametrize(
    ("batches", "error"),
    [
        ([batch(b"x")], InputError),
        ({0: batch(b"x")}, InputError),
        ({0: 5}, InputError),
        ({0: ["text"]}, InputError),
        ({"0": [batch(b"x")]}, InputError),
        ({0: [batch(b"x")], 1: [batch(b"x")]}, NotFound),
        ({-1: []}, NotFound),
    ],
)
def test_batches_that_are_no_mapping_of_sequences_are_refused(
    batches: Any, error: type[Exception]
) -> None:
    with opened(World(1)) as topic:
        with pytest.raises(error):
            topic.commit_batches(APPLICATION, 1, batches)
        assert values_of(topic, 0) == []


def test_of_several_partitions_that_do_not_exist_the_lowest_is_reported() -> None:
    with opened(World(1)) as topic, pytest.raises(NotFound, match=r"there is no partition -1$"):
        topic.commit_batches(APPLICATION, 1, {2: [], -1: []})
