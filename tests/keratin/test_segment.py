"""The indexes of the segment that is written: by stride, whatever the sizes of the writes."""

from __future__ import annotations

from itertools import accumulate

from hypothesis import given
from hypothesis import strategies as st

from lakebed.keratin.format import RECORDS_START, RELATIVE_OFFSET_MAX, IndexEntry, TimeEntry
from lakebed.keratin.segment import ActiveSegment

BASE = 1000
STRIDE = 256


def new_segment() -> ActiveSegment:
    return ActiveSegment(
        base_offset=BASE, created_ms=5, index_stride_bytes=STRIDE, next_offset=BASE
    )


def add(segment: ActiveSegment, sizes: list[int], stamps: list[int] | int) -> None:
    first = segment.next_offset
    segment.add(
        positions=list(accumulate(sizes, initial=0))[:-1],
        offsets=range(first, first + len(sizes)),
        timestamps_ms=stamps,
        size=sum(sizes),
        next_offset=first + len(sizes),
    )


def expected(sizes: list[int], stamps: list[int]) -> tuple[list[IndexEntry], list[TimeEntry]]:
    """As the specification says it, record by record."""
    places, times = [], []
    position, since, latest = RECORDS_START, 0, 0
    for number, (size, stamp) in enumerate(zip(sizes, stamps, strict=True)):
        since += size
        latest = max(latest, stamp)
        if since >= STRIDE:
            places.append(IndexEntry(number, 0, position))
            times.append(TimeEntry(latest, number, 0))
            since = 0
        position += size
    return places, times


RECORDS = st.lists(st.tuples(st.integers(36, 600), st.integers(0, 50)), min_size=1, max_size=40)


@given(RECORDS, st.data())
def test_entries_are_the_same_however_records_are_written(
    records: list[tuple[int, int]], data: st.DataObject
) -> None:
    sizes, stamps = [size for size, _ in records], [stamp for _, stamp in records]
    segment = new_segment()
    done = 0
    while done < len(sizes):
        count = data.draw(st.integers(1, len(sizes) - done))
        add(segment, sizes[done : done + count], stamps[done : done + count])
        done += count
    assert (segment.places, segment.times) == expected(sizes, stamps)
    assert segment.end == RECORDS_START + sum(sizes)
    assert segment.timestamp_ms_max == max(stamps)
    last = TimeEntry(max(stamps), len(sizes) - 1, 0)
    assert segment.finished_times() == [*segment.times, last]


def test_a_record_that_just_fills_a_stride_has_an_entry() -> None:
    segment = new_segment()
    add(segment, [STRIDE - 36, 36, STRIDE - 1, 36, STRIDE - 36, 36], 1)
    assert [entry.relative_offset for entry in segment.places] == [1, 3, 5]


def test_one_stamp_for_all_counts_for_all() -> None:
    segment = new_segment()
    add(segment, [300, 300], 9)
    add(segment, [300], 4)
    assert [entry.timestamp_ms for entry in segment.times] == [9, 9, 9]


def test_an_empty_segment_has_no_entries() -> None:
    segment = new_segment()
    assert segment.is_empty
    assert segment.finished_times() == []
    add(segment, [36], 1)
    assert not segment.is_empty


def test_damage_moves_what_is_behind_it() -> None:
    segment = new_segment()
    add(segment, [100], 1)
    segment.skip(500)
    add(segment, [100], 1)
    assert segment.places == [IndexEntry(1, 0, RECORDS_START + 600)]
    assert segment.end == RECORDS_START + 700


def test_a_segment_takes_no_more_offsets_than_its_index_can_count() -> None:
    segment = new_segment()
    assert segment.may_take(BASE + RELATIVE_OFFSET_MAX)
    assert not segment.may_take(BASE + RELATIVE_OFFSET_MAX + 1)
