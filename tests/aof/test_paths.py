"""Names of logs, segments and archived segments: round trips, and hostile ones."""

from __future__ import annotations

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebed.aof.paths import ArchivedName, LogPaths, SegmentName, check_log_name
from lakebed.base.errors import BadName

u64 = st.integers(0, 2**64 - 1)
GOOD = "00000000000000000007_00000000000000123400_01700000000123456789.seg"


@given(u64, u64, u64)
def test_a_segments_name_round_trips(segment_id: int, base_offset: int, created_at: int) -> None:
    name = SegmentName(segment_id, base_offset, created_at)
    assert SegmentName.parse(str(name)) == name
    assert ArchivedName.parse(str(name)) is None
    assert len(str(name)) == 66


@given(u64, u64)
def test_an_archived_name_round_trips(segment_id: int, sealed_at: int) -> None:
    name = ArchivedName(segment_id, sealed_at)
    assert ArchivedName.parse(str(name)) == name
    assert SegmentName.parse(str(name)) is None


@given(st.tuples(u64, u64, u64), st.tuples(u64, u64, u64))
def test_names_sort_as_their_numbers_do(
    one: tuple[int, int, int], other: tuple[int, int, int]
) -> None:
    assert (str(SegmentName(*one)) < str(SegmentName(*other))) is (one < other)


def test_a_segments_name_is_three_numbers_of_twenty_digits() -> None:
    assert str(SegmentName(7, 123_400, 1_700_000_000_123_456_789)) == GOOD


@pytest.mark.parametrize(
    "name",
    ["", GOOD + ".spare", GOOD + ".tmp", GOOD + "\n", " " + GOOD, "../" + GOOD, GOOD[1:],
     "0" + GOOD, GOOD.replace("_", "-"), GOOD.replace("7", "\N{ARABIC-INDIC DIGIT SEVEN}"),
     GOOD.replace("7", "-"), GOOD.upper(),
     GOOD.replace("00000000000000000007", "18446744073709551616"), GOOD[:-4], "\0" + GOOD],
)  # fmt: skip
def test_what_is_no_segments_name_is_not_taken_for_one(name: str) -> None:
    assert SegmentName.parse(name) is None
    assert ArchivedName.parse(name) is None


@pytest.mark.parametrize(
    "name",
    ["", ".", "..", "../up", "a/b", "/a", "a\\b", "a\0b", "a\nb", "a\n", "\na", "a b", "-a", ".a",
     "_a", "é", "\N{CYRILLIC SMALL LETTER A}", "a\u202e", "a" * 201,
     "a" * 5000, "~", "a:b", "a*", "%2e%2e"],
)  # fmt: skip
def test_a_name_that_is_more_than_a_folders_name_is_refused(name: str) -> None:
    with pytest.raises(BadName) as refused:
        check_log_name(name)
    assert len(str(refused.value)) < 400
    assert "\n" not in str(refused.value)
    with pytest.raises(BadName):
        LogPaths("/root", name)


@pytest.mark.parametrize("name", ["a", "0", "orders.v2", "A-b_c.d", "a..b", "a" * 200])
def test_a_plain_name_is_taken(name: str) -> None:
    check_log_name(name)
    assert LogPaths("/root", name).folder == f"/root/aof/{name}"


@given(st.text(max_size=300))
def test_no_name_leaves_the_logs_folder(name: str) -> None:
    try:
        paths = LogPaths("/root", name)
    except BadName:
        return
    assert os.path.dirname(os.path.normpath(paths.folder)) == "/root/aof"
