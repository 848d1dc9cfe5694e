"""Which keys filters leave, and how ranges of them are cut into tasks."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    IsNull,
    LessThan,
    LessThanOrEqual,
    Not,
    StringContains,
    StringStartsWith,
)

from lakebed.seglake.meta.reader import KEYS_END
from lakebed.seglake.stored_pages import KeyRange
from lakebed.spark.sources.object_ranges import (
    KeyPlace,
    Selection,
    cut,
    listing_of,
    selected,
    selection_of,
)

KEY, BUCKET = ("key",), ("bucket",)
COLUMNS = ("bucket", "key")
keys = st.text(st.sampled_from("\0ab\x7f\u00e9\ud7ff\ue000\U0010ffff"), max_size=4)


@pytest.mark.parametrize(
    ("one", "expected"),
    [
        (EqualTo(BUCKET, "one"), Selection(buckets=frozenset({"one"}))),
        (EqualNullSafe(BUCKET, "one"), Selection(buckets=frozenset({"one"}))),
        (In(BUCKET, ("one", "two")), Selection(buckets=frozenset({"one", "two"}))),
        (EqualTo(KEY, "k"), Selection(keys=frozenset({b"k"}))),
        (In(KEY, ("k", "\u00e9")), Selection(keys=frozenset({b"k", b"\xc3\xa9"}))),
        (StringStartsWith(KEY, "a/"), Selection(start=b"a/", end=b"a0")),
        (StringStartsWith(KEY, ""), Selection()),
        (GreaterThan(KEY, "k"), Selection(start=b"k\0")),
        (GreaterThanOrEqual(KEY, "k"), Selection(start=b"k")),
        (LessThan(KEY, "k"), Selection(end=b"k")),
        (LessThanOrEqual(KEY, "k"), Selection(end=b"k\0")),
        (IsNotNull(KEY), Selection()),
    ],
)
def test_a_filter_that_is_taken_narrows_what_is_read(one: Filter, expected: Selection) -> None:
    assert selected([one], columns=COLUMNS, within=Selection()) == (expected, [])


@pytest.mark.parametrize(
    "one",
    [
        IsNull(KEY),
        Not(EqualTo(KEY, "k")),
        EqualTo(KEY, None),
        EqualTo(("key", "part"), "k"),
        EqualTo(("etag",), "k"),
        EqualTo(("segment_id",), "k"),
        In(KEY, ("k", None)),
        StringContains(KEY, "k"),
        StringStartsWith(BUCKET, "k"),
        GreaterThan(KEY, 3),
    ],
)
def test_a_filter_that_is_not_understood_stays_with_spark(one: Filter) -> None:
    assert selected([one], columns=COLUMNS, within=Selection()) == (Selection(), [one])


def test_filters_narrow_what_the_options_left() -> None:
    within = selection_of(buckets=["one", "two"], prefix="a/")
    found, left = selected(
        [In(BUCKET, ("two", "three")), GreaterThan(KEY, "a/5"), LessThan(KEY, "b")],
        columns=COLUMNS,
        within=within,
    )
    assert left == []
    assert found.ranges(["one", "three", "two"]) == [KeyRange("two", b"a/5\0", b"a0")]
    none, _ = selected([EqualTo(KEY, "b")], columns=COLUMNS, within=within)
    assert none.ranges(["one"]) == []


def test_keys_that_are_named_are_ranges_of_one() -> None:
    found = Selection(keys=frozenset({b"b", b"a"}), start=b"a").ranges(["two", "one"])
    assert found == [
        KeyRange("one", b"a", b"a\0"),
        KeyRange("one", b"b", b"b\0"),
        KeyRange("two", b"a", b"a\0"),
        KeyRange("two", b"b", b"b\0"),
    ]


@given(
    st.lists(st.tuples(st.sampled_from(["one", "two", "three"]), keys), max_size=40),
    st.integers(1, 8),
    st.none() | st.lists(keys, max_size=4),
    keys,
)
def test_what_is_cut_is_all_of_it_in_order_and_once(
    sample: list[tuple[str, str]], count: int, named: list[str] | None, start: str
) -> None:
    selection = Selection(
        keys=None if named is None else frozenset(key.encode() for key in named),
        start=start.encode(),
    )
    ranges = selection.ranges(["one", "two"])
    places = [KeyPlace(bucket, key.encode()) for bucket, key in sample]
    parts = cut(ranges, places, count)
    assert len(parts) <= count
    assert all(parts)
    pieces = [piece for part in parts for piece in part]
    assert all(piece.start < piece.end for piece in pieces)
    assert pieces == sorted(pieces)
    for place in places:
        expected = sum(holds(one, place) for one in ranges)
        assert sum(holds(piece, place) for piece in pieces) == expected
    glued: list[KeyRange] = []
    for piece in pieces:
        if glued and glued[-1].bucket == piece.bucket and glued[-1].end == piece.start:
            glued[-1] = glued[-1]._replace(end=piece.end)
        else:
            glued.append(piece)
    if named is None:
        assert glued == ranges


def test_parts_have_about_as_many_of_the_sampled_keys() -> None:
    ranges = Selection().ranges(["one", "two"])
    sample = [KeyPlace("one", b"%03d" % number) for number in range(30)]
    sample += [KeyPlace("two", b"%03d" % number) for number in range(70)]
    parts = cut(ranges, sample, 10)
    counts = [sum(holds(piece, place) for piece in part for place in sample) for part in parts]
    assert counts == [10] * 10


@given(keys, keys, st.lists(keys, max_size=20))
def test_a_listing_has_all_keys_of_its_range(start: str, end: str, found: list[str]) -> None:
    one = KeyRange("one", start.encode(), end.encode() or KEYS_END)
    listing = listing_of(one)
    for key in found:
        if one.start <= key.encode() < one.end and key:
            assert key.startswith(listing.prefix)
            assert key.encode() > listing.after.encode()


def test_a_listing_asks_for_little_more_than_its_range() -> None:
    assert listing_of(KeyRange("one", b"a/b", b"a/c")) == ("a/b", "")
    assert listing_of(KeyRange("one", b"k", b"k\0")) == ("k", "")
    assert listing_of(KeyRange("one", b"k\0", KEYS_END)) == ("", "k")
    assert listing_of(KeyRange("one", b"m", KEYS_END)) == ("", "l\U0010ffff")
    assert listing_of(KeyRange("one", b"", KEYS_END)) == ("", "")
    after = listing_of(KeyRange("one", "\ue000".encode(), KEYS_END)).after
    assert after == "\ud7ff\U0010ffff", "no surrogates"


def holds(one: KeyRange, place: KeyPlace) -> bool:
    return one.bucket == place.bucket and one.start <= place.key < one.end
