"""The newest log, cut anywhere and damaged anywhere: torn is wiped, damage is kept and told."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from lakebed.base.simulation.disk import Crash
from lakebed.base.simulation.world import World
from lakebed.keratin.format import RECORDS_START
from lakebed.keratin.headers import Producer
from lakebed.keratin.partition import Partition
from lakebed.keratin.record_batch import build
from lakebed.kernels import keratin_scan
from tests.keratin.partitions import (
    PATHS,
    append,
    content,
    flipped,
    log_path,
    messages,
    opened,
    quarantined,
    replace,
    values,
)

pytestmark = pytest.mark.thorough

VALUES = [b"first", b"second one", b"b0", b"b1", b"b2", b"keyed", b"the last"]


class Written(NamedTuple):
    """A partition with one segment, closed; and what it had said when it was opened."""

    world: World
    log: bytes
    ends: list[int]  # of its records
    counts: list[int]  # messages up to each of these ends
    manifest: bytes
    durable_end: bytes

    def twin(self, log: bytes, *, is_confirmed: bool) -> World:
        """The same machine with another log; crashed, unless the end is confirmed."""
        world = self.world.copy()
        replace(world.disk, log_path(0), log)
        if not is_confirmed:
            replace(world.disk, PATHS.manifest, self.manifest)
            replace(world.disk, PATHS.durable_end, self.durable_end)
        return world

    def record_at(self, position: int) -> int:
        """Which record a byte belongs to; -1 is the header."""
        if position < RECORDS_START:
            return -1
        return sum(end <= position for end in self.ends)

    def values_of(self, records: int) -> list[bytes]:
        """Of the first few records."""
        return VALUES[: self.counts[records - 1]] if records else []


@pytest.fixture(scope="module")
def written() -> Written:
    world = World(1)
    partition = opened(world)
    manifest, durable_end = (
        content(world.disk, PATHS.manifest),
        content(world.disk, PATHS.durable_end),
    )
    append(partition, VALUES[0])
    append(partition, VALUES[1], headers=[[("name", b"value")]])
    partition.append_record_batch(build(VALUES[2:5], timestamps_ms=9)).result()
    append(partition, VALUES[5], keys=[b"key"], producer=Producer(7, 0, 0))
    append(partition, VALUES[6])
    partition.close()
    log = content(world.disk, log_path(0))
    found = keratin_scan(memoryview(log), RECORDS_START, len(log), count_max=9)
    ends = [*list(found.positions)[1:], len(log)]
    return Written(world, log, ends, [1, 2, 5, 6, 7], manifest, durable_end)


def check_goes_on(
    world: World, partition: Partition, kept: list[bytes], *, end: int, is_reopened: bool = True
) -> None:
    """The next append lands right behind the last good record, and all is there ever after."""
    base = append(partition, b"the next one")
    assert base == len(kept)
    assert values(partition) == [*kept, b"the next one"]
    partition.close()
    log = content(world.disk, log_path(0))
    found = keratin_scan(memoryview(log), RECORDS_START, len(log), count_max=99)
    assert found.positions[-1] == end
    assert not any(log[found.end :])
    if not is_reopened:
        return
    world.restart(Crash.POWER)
    again = opened(world)
    assert values(again) == [*kept, b"the next one"]
    assert not again.problems
    again.close()


@pytest.mark.sweep
def test_a_tail_that_was_cut_anywhere_ends_behind_its_last_good_record(written: Written) -> None:
    for length in range(len(written.log) + 1):
        world = written.twin(written.log[:length], is_confirmed=False)
        partition = opened(world)
        records = sum(end <= length for end in written.ends)
        kept = written.values_of(records)
        assert values(partition) == kept
        assert not partition.problems
        end = written.ends[records - 1] if records else RECORDS_START
        check_goes_on(world, partition, kept, end=end, is_reopened=length % 4 == 0)
        assert not quarantined(world.disk)


@pytest.mark.parametrize("zeros", [1, 68, 5000])
def test_zeros_behind_a_cut_change_nothing(written: Written, zeros: int) -> None:
    for length in range(0, len(written.log) + 1, 11):
        world = written.twin(written.log[:length] + bytes(zeros), is_confirmed=False)
        partition = opened(world)
        # A cut byte that was zero is there again.
        whole = written.log[:length] + bytes(zeros)
        records = sum(whole[:end] == written.log[:end] for end in written.ends)
        kept = written.values_of(records)
        assert values(partition) == kept
        end = written.ends[records - 1] if records else RECORDS_START
        check_goes_on(world, partition, kept, end=end)


@pytest.mark.sweep
def test_a_flipped_bit_behind_the_confirmed_end_is_torn_or_saved(written: Written) -> None:
    for position in range(len(written.log)):
        damaged = flipped(written.log, position, position % 8)
        world = written.twin(damaged, is_confirmed=False)
        partition = opened(world)
        record = written.record_at(position)
        if record < 0:
            assert values(partition) == VALUES, "a header is mended"
            assert len(partition.problems) == 1
            end = len(written.log)
        else:
            end = written.ends[record - 1] if record else RECORDS_START
            kept = written.values_of(record)
            assert values(partition) == kept
            if record == len(written.ends) - 1:
                assert not partition.problems
                assert not quarantined(world.disk)
            else:
                assert f"at byte {end}" in partition.problems[0]
                assert quarantined(world.disk) == [damaged[end:]], "what is wiped is saved first"
        kept = VALUES if record < 0 else written.values_of(record)
        check_goes_on(world, partition, kept, end=end, is_reopened=position % 4 == 0)


@pytest.mark.sweep
def test_a_flipped_bit_before_the_confirmed_end_is_damage_and_saved(written: Written) -> None:
    for position in range(RECORDS_START, len(written.log), 2):
        damaged = flipped(written.log, position, position // 2 % 8)
        world = written.twin(damaged, is_confirmed=True)
        record = written.record_at(position)
        start = written.ends[record - 1] if record else RECORDS_START
        bad = damaged[start : written.ends[record]]
        check_damaged(world, opened(world), written, record, damaged=bad)


def check_damaged(
    world: World, partition: Partition, written: Written, record: int, *, damaged: bytes
) -> None:
    """Records from that one on are lost, as `damaged` tells; nothing else is, nor ever after."""
    start = written.ends[record - 1] if record else RECORDS_START
    assert any(f"{log_path(0)}: at byte {start}" in text for text in partition.problems)
    saved = damaged.rstrip(b"\0")
    assert quarantined(world.disk) == ([saved] if saved else [])
    lost = 1 if start + len(damaged) in written.ends else len(written.ends) - record
    behind = VALUES[written.counts[record + lost - 1] :]
    assert append(partition, b"the next one") == len(VALUES), "no offset is used twice"
    expected = [*written.values_of(record), *behind, b"the next one"]
    assert values(partition) == expected
    partition.close()
    world.restart(Crash.POWER)
    partition = opened(world)
    assert values(partition) == expected
    assert not partition.problems, "it was repaired"
    partition.close()


def test_a_log_shorter_than_its_confirmed_end_is_damage(written: Written) -> None:
    for length in range(RECORDS_START, len(written.log), 7):
        cut = written.log[:length]
        world = written.twin(cut, is_confirmed=True)
        record = written.record_at(length)
        start = written.ends[record - 1] if record else RECORDS_START
        check_damaged(world, opened(world), written, record, damaged=cut[start:])


def test_a_confirmed_log_that_is_gone_gives_no_offset_twice(written: Written) -> None:
    world = written.world.copy()
    world.disk.unlink(log_path(0))
    partition = opened(world)
    assert append(partition, b"the next one") == len(VALUES)
    assert any("missing" in text for text in partition.problems)
    assert [message.offset for message in messages(partition)] == [len(VALUES)]
    partition.close()


def test_records_of_another_place_are_not_taken(written: Written) -> None:
    """A whole record whose offset does not rise: an older write that came back."""
    first = written.log[RECORDS_START : written.ends[0]]
    world = written.twin(written.log + first, is_confirmed=False)
    partition = opened(world)
    assert values(partition) == VALUES
    assert quarantined(world.disk) == [first]
    check_goes_on(world, partition, VALUES, end=len(written.log))


def test_two_losses_at_one_place_are_both_saved(written: Written) -> None:
    world = written.twin(flipped(written.log, written.ends[0]), is_confirmed=False)
    opened(world).close()
    replace(world.disk, log_path(0), flipped(written.log, written.ends[0], 3))
    replace(world.disk, PATHS.manifest, written.manifest)
    replace(world.disk, PATHS.durable_end, written.durable_end)
    opened(world).close()
    assert len(quarantined(world.disk)) == 2


def test_a_damaged_durable_end_costs_nothing(written: Written) -> None:
    world = written.world.copy()
    replace(world.disk, PATHS.durable_end, flipped(content(world.disk, PATHS.durable_end), 20))
    partition = opened(world)
    assert values(partition) == VALUES
    assert not partition.problems
    check_goes_on(world, partition, VALUES, end=len(written.log))
