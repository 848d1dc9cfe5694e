"""Pushed filters: what they leave to be read, and what Spark must still do."""

from __future__ import annotations

from datetime import UTC, datetime

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
    StringStartsWith,
)

from lakebed.aof.record_id import RecordId
from lakebed.spark.filters import Interval, ReadFilter, narrow
from lakebed.spark.sources.aof import LOGS
from lakebed.spark.sources.topic import TOPICS

MOMENT = datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC)
MOMENT_US = 1_700_000_000_000_000


def of_topic(*filters: Filter) -> tuple[ReadFilter, list[Filter]]:
    wanted, left = narrow(filters, TOPICS.columns)
    return wanted, list(left)


def of_log(*filters: Filter) -> tuple[ReadFilter, list[Filter]]:
    wanted, left = narrow(filters, LOGS.columns)
    return wanted, list(left)


def test_without_filters_everything_is_wanted() -> None:
    wanted, left = of_topic()
    assert wanted == ReadFilter()
    assert wanted.has_lane("anything", 7)
    assert left == []


def test_offsets_are_narrowed_exactly() -> None:
    wanted, left = of_topic(
        GreaterThan(("offset",), 4), GreaterThanOrEqual(("offset",), 3), LessThan(("offset",), 9)
    )
    assert wanted.positions == Interval(5, 9)
    assert left == []
    assert of_topic(LessThanOrEqual(("offset",), 9))[0].positions == Interval(None, 10)
    assert of_topic(EqualTo(("offset",), 9))[0].positions == Interval(9, 10)


def test_some_offsets_of_many_are_narrowed_to_what_has_them_all() -> None:
    one = In(("offset",), (9, 4))
    wanted, left = of_topic(one)
    assert wanted.positions == Interval(4, 10)
    assert left == [one]


def test_partitions_and_topics_choose_lanes() -> None:
    wanted, left = of_topic(
        In(("partition",), (1, 2, 3)), LessThan(("partition",), 3), EqualTo(("topic",), "a")
    )
    assert left == []
    lanes = [(name, number) for name in "ab" for number in range(5)]
    assert [lane for lane in lanes if wanted.has_lane(*lane)] == [("a", 1), ("a", 2)]


def test_two_that_contradict_leave_nothing() -> None:
    wanted, _ = of_topic(EqualTo(("partition",), 1), EqualTo(("partition",), 2))
    assert not any(wanted.has_lane("a", number) for number in range(5))


def test_times_narrow_and_stay_with_spark() -> None:
    filters = [GreaterThanOrEqual(("timestamp",), MOMENT), LessThan(("timestamp",), MOMENT)]
    wanted, left = of_topic(*filters)
    assert wanted.times_us == Interval(MOMENT_US, MOMENT_US)
    assert left == filters


def test_a_time_of_no_zone_is_left_to_spark() -> None:
    one = GreaterThan(("timestamp",), MOMENT.replace(tzinfo=None))
    assert of_topic(one) == (ReadFilter(), [one])


def test_columns_without_nulls_need_no_look() -> None:
    assert of_topic(IsNotNull(("offset",)), IsNotNull(("timestamp",))) == (ReadFilter(), [])


def test_all_that_is_not_understood_is_left_to_spark() -> None:
    filters: list[Filter] = [
        IsNotNull(("key",)),
        IsNull(("offset",)),
        Not(EqualTo(("partition",), 1)),
        EqualTo(("headers", "name"), "a"),
        StringStartsWith(("topic",), "a"),
        EqualNullSafe(("offset",), None),
        EqualTo(("offset",), True),
        In(("offset",), ()),
        In(("partition",), (1, None)),
        EqualTo(("value",), b"a"),
    ]
    assert of_topic(*filters) == (ReadFilter(), filters)


def test_record_ids_and_segments_narrow_and_stay_with_spark() -> None:
    filters = [GreaterThanOrEqual(("record_id",), 100), EqualTo(("segment",), 2)]
    wanted, left = of_log(*filters)
    assert wanted.positions == Interval(RecordId.from_parts(2, 64), RecordId.from_parts(3, 64))
    assert left == filters


def test_nanoseconds_are_rounded_to_what_has_them_all() -> None:
    wanted, _ = of_log(GreaterThan(("timestamp_ns",), 1999), LessThan(("timestamp_ns",), 5001))
    assert wanted.times_us == Interval(2, 6)
