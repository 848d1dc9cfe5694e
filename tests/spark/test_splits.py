"""Ranges to splits: nothing lost, nothing twice, few and of about the same size."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebed.base.units import MIB
from lakebed.keratin.format import RECORDS_START
from lakebed.keratin.view import PartitionSegment
from lakebed.spark.splits import Extent, Piece, split
from lakebed.store.split_points import INDEXES_MAX, SplitPoint, bytes_at, topic_split_points


def extent(key: str, count: int, size: int, *, is_cut_anywhere: bool = True) -> Extent[str]:
    return Extent(key, [SplitPoint(0, 0), SplitPoint(count, size)], is_cut_anywhere)


def sizes(splits: Sequence[Sequence[Piece[str]]]) -> list[int]:
    return [sum(piece.size for piece in one) for one in splits]


def test_small_ranges_share_a_split() -> None:
    extents = [extent(str(number), 10, 1000) for number in range(64)]
    (only,) = split(extents, bytes_max=64 * MIB, count_min=2)
    assert len(only) == 64


def test_a_large_range_is_cut_into_equal_parts() -> None:
    found = split([extent("a", 1_000_000, 100 * MIB)], bytes_max=30 * MIB, count_min=1)
    assert sizes(found) == [25 * MIB] * 4
    assert [piece.end - piece.start for one in found for piece in one] == [250_000] * 4


def test_there_is_one_for_each_core_if_there_is_enough() -> None:
    assert len(split([extent("a", 100, 40 * MIB)], bytes_max=64 * MIB, count_min=4)) == 4
    assert len(split([extent("a", 100, 4 * MIB)], bytes_max=64 * MIB, count_min=4)) == 1


def test_no_core_waits_for_the_last_split() -> None:
    assert len(split([extent("a", 1000, 300 * MIB)], bytes_max=64 * MIB, count_min=2)) == 6
    assert len(split([extent("a", 1000, 300 * MIB)], bytes_max=64 * MIB, count_min=4)) == 8
    assert len(split([extent("a", 1000, 300 * MIB)], bytes_max=64 * MIB, count_min=200)) == 75


def test_what_has_no_place_to_be_cut_at_stays_whole() -> None:
    one = extent("a", 100, 100 * MIB, is_cut_anywhere=False)
    assert len(split([one], bytes_max=10 * MIB, count_min=1)) == 1


def test_cuts_are_at_split_points_where_they_must_be() -> None:
    points = [SplitPoint(at, at * MIB) for at in (0, 7, 13, 20, 31, 40)]
    found = split([Extent("a", points, False)], bytes_max=10 * MIB, count_min=1)
    places = {piece.start for one in found for piece in one} | {40}
    assert places <= {point.at for point in points}
    assert len(found) > 2


def test_nothing_is_split_to_nothing() -> None:
    assert split([extent("a", 0, 0)], bytes_max=1, count_min=4) == []
    assert split([], bytes_max=1, count_min=4) == []


@st.composite
def extents(draw: st.DrawFn) -> list[Extent[int]]:
    found = []
    for key in range(draw(st.integers(0, 6))):
        steps = draw(st.lists(st.tuples(st.integers(1, 50), st.integers(0, 500)), max_size=12))
        at = draw(st.integers(0, 1000))
        size = draw(st.integers(0, 1000))
        points = [SplitPoint(at, size)]
        for count, more in steps:
            at, size = at + count, size + more
            points.append(SplitPoint(at, size))
        found.append(Extent(key, points, draw(st.booleans())))
    return found


@given(extents(), st.integers(1, 400), st.integers(1, 5))
def test_all_is_read_once_and_in_order(
    given_extents: list[Extent[int]], bytes_max: int, count_min: int
) -> None:
    found = split(given_extents, bytes_max=bytes_max, count_min=count_min)
    pieces = [piece for one in found for piece in one]
    assert all(found)
    for one in given_extents:
        mine = [piece for piece in pieces if piece.key == one.key]
        at = one.split_points[0].at
        for piece in mine:
            assert (piece.start, piece.start < piece.end) == (at, True)
            at = piece.end
        assert at == one.split_points[-1].at
    assert sum(piece.size for piece in pieces) == sum(one.size for one in given_extents)
    if all(one.is_cut_anywhere for one in given_extents):
        assert max(sizes_of(found), default=0) <= 2 * bytes_max + 500


def sizes_of(splits: Sequence[Sequence[Piece[int]]]) -> list[int]:
    return [sum(piece.size for piece in one) for one in splits]


def segment(base: int, behind: int, size: int, *, is_sealed: bool = True) -> PartitionSegment:
    return PartitionSegment(base, behind, f"{base}.log", RECORDS_START + size, is_sealed)


def test_split_points_follow_the_segments_and_their_indexes() -> None:
    segments = [segment(0, 100, 1000), segment(100, 200, 3000)]
    index = {0: [(40, RECORDS_START + 900)], 100: []}
    points = topic_split_points(segments, lambda info: index[info.base_offset], start=0, end=200)
    assert points == [
        SplitPoint(0, 0),
        SplitPoint(40, 900),
        SplitPoint(100, 1000),
        SplitPoint(200, 4000),
    ]
    part = topic_split_points(segments, lambda info: index[info.base_offset], start=20, end=150)
    assert part == [
        SplitPoint(20, 450),
        SplitPoint(40, 900),
        SplitPoint(100, 1000),
        SplitPoint(150, 2500),
    ]


def test_an_index_that_does_not_fit_is_left_out() -> None:
    wrong = [(40, RECORDS_START + 5000), (30, RECORDS_START + 1), (500, RECORDS_START + 2)]
    points = topic_split_points([segment(0, 100, 1000)], lambda _: wrong, start=0, end=100)
    assert points == [SplitPoint(0, 0), SplitPoint(30, 1), SplitPoint(100, 1000)]


def test_of_many_segments_only_those_read_in_part_have_their_index_looked_at() -> None:
    segments = [segment(n * 10, n * 10 + 10, 100) for n in range(INDEXES_MAX + 1)]
    looked: list[int] = []

    def look(info: PartitionSegment) -> list[tuple[int, int]]:
        looked.append(info.base_offset)
        return []

    end = segments[-1].next_offset
    topic_split_points(segments, look, start=5, end=end)
    assert looked == [0]


@pytest.mark.parametrize(("at", "size"), [(-5, 0), (0, 0), (5, 50), (10, 100), (99, 100)])
def test_bytes_between_split_points_are_spread_evenly(at: int, size: int) -> None:
    assert bytes_at([SplitPoint(0, 0), SplitPoint(10, 100)], at) == size
