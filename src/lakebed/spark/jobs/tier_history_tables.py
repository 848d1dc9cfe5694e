"""Computes the tables of the job `tier-history` from the spans of time of all segments."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

from lakebed.spark.jobs.tier_history_fold import (
    CHANGE,
    DAMAGE,
    DONE,
    FAILED,
    HYDRATION,
    RECORDS,
    STAY,
    TORN,
    UPLOAD,
)

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, Row, SparkSession

MOMENTS_MAX = 1000  # points in time per log, in `bytes_per_tier`
PERCENTILES = {"p50": 0.5, "p90": 0.9, "p99": 0.99}

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class HistoryTables(NamedTuple):
    tables: Mapping[str, pa.Table]
    record_count: int
    problems: Sequence[str]
    notes: Sequence[str] = ()  # torn ends, left by crashes


def tables_of(spark: SparkSession, spans: DataFrame) -> HistoryTables:
    """Computes the tables from the spans of all segments.

    Reads `spans` at most three times.
    """
    groups = _groups(spans)
    reported: list[tuple[str, str]] = []
    if any(row.kind in (DAMAGE, TORN) for row in groups):
        damages = spans.where(f"kind IN ('{DAMAGE}', '{TORN}')")
        reported = sorted(damages.select("kind", "outcome").collect())
    problems = [outcome for kind, outcome in reported if kind == DAMAGE]
    notes = [outcome for kind, outcome in reported if kind == TORN]
    tables = {
        "time_in_tier": _table(_stay, groups, STAY, _STAYS),
        "hydration_latency": _table(_hydration, groups, HYDRATION, _HYDRATIONS),
        "upload_retries": _table(_upload, groups, UPLOAD, _UPLOADS),
        "bytes_per_tier": _bytes_over_time(spark, spans, groups),
    }
    record_count = sum(row.tries for row in groups if row.kind == RECORDS)
    return HistoryTables(tables, record_count, problems, notes)


def _groups(spans: DataFrame) -> list[Row]:
    """Aggregates the spans by log, kind and tier: counts, sums and percentiles for the tables."""
    from pyspark.sql import functions as sql

    is_counted = sql.col("outcome").isNull() | (sql.col("outcome") == DONE)
    duration = sql.when(is_counted, sql.expr("ended_ms - started_ms"))
    grouped = spans.groupBy("log", "kind", "tier").agg(
        sql.count("*").alias("spans"),
        sql.count("ended_ms").alias("ended"),
        sql.count_if(sql.col("outcome") == DONE).alias("done"),
        sql.count_if(sql.col("outcome") == FAILED).alias("failed"),
        sql.sum("tries").alias("tries"),
        sql.max("tries").alias("tries_max"),
        sql.sum("failures").alias("failures"),
        sql.percentile(duration, list(PERCENTILES.values())).alias("percentiles"),
        sql.max(duration).alias("duration_max"),
        sql.min("started_ms").alias("first_ms"),
        sql.max("started_ms").alias("last_ms"),
    )
    return sorted(grouped.collect(), key=lambda row: (row.log, row.kind, row.tier))


def _stay(row: Row) -> dict[str, Any]:
    going_on = row.spans - row.ended
    return {"tier": row.tier, "ended": row.ended, "go_on": going_on, **_durations(row, "s", 1000)}


def _hydration(row: Row) -> dict[str, Any]:
    counts = {"source_tier": row.tier, "done": row.done, "failed": row.failed}
    return {**counts, **_durations(row, "ms", 1)}


def _upload(row: Row) -> dict[str, Any]:
    return {
        "uploads": row.spans,
        "done": row.done,
        "tries": row.tries,
        "retries": row.tries - row.spans,
        "failures": row.failures,
        "tries_max": row.tries_max,
        **_durations(row, "ms", 1),
    }


_STAYS = ("log", "tier", "ended", "go_on", "p50_s", "p90_s", "p99_s", "max_s")
_HYDRATIONS = ("log", "source_tier", "done", "failed", "p50_ms", "p90_ms", "p99_ms", "max_ms")
_UPLOADS = ("log", "uploads", "done", "tries", "retries", "failures", "tries_max", "p50_ms",
            "p90_ms", "p99_ms", "max_ms")  # fmt: skip
_BYTES = ("log", "at", "tier0_bytes", "tier1_bytes", "tier2_bytes")


def _durations(row: Row, unit: str, divisor: int) -> dict[str, float | None]:
    """Returns the percentiles and the maximum of the durations, with their names in the table.

    `unit` is the suffix of the names, and `divisor` converts milliseconds to that unit. All values
    are None if no stay has ended, or no hydration or upload was completed.
    """
    percentiles = row.percentiles or [None] * len(PERCENTILES)
    values = {**dict(zip(PERCENTILES, percentiles, strict=True)), "max": row.duration_max}
    return {
        f"{name}_{unit}": None if value is None else value / divisor
        for name, value in values.items()
    }


def _table(of_row: Any, groups: Iterable[Row], kind: str, names: Sequence[str]) -> pa.Table:
    rows = [{"log": row.log, **of_row(row)} for row in groups if row.kind == kind]
    return _arrow(rows, names)


def _arrow(rows: Sequence[Mapping[str, Any]], names: Sequence[str]) -> pa.Table:
    import pyarrow as pa

    def kind(name: str) -> pa.DataType:
        if name == "at":
            return pa.timestamp("ms", "UTC")
        if name == "log":
            return pa.string()
        return pa.float64() if name.endswith(("_s", "_ms")) else pa.int64()

    return pa.Table.from_pylist(rows, schema=pa.schema([(name, kind(name)) for name in names]))


def _bytes_over_time(spark: SparkSession, spans: DataFrame, groups: Iterable[Row]) -> pa.Table:
    """Returns, per log, the number of bytes in each tier at the end of each time step in which
    bytes changed.

    The history of a log is divided into at most `MOMENTS_MAX` steps of equal length.
    """
    edges: dict[str, tuple[int, int]] = {}
    for row in groups:
        if row.kind == CHANGE:
            first_ms, last_ms = edges.get(row.log, (row.first_ms, row.last_ms))
            edges[row.log] = (min(first_ms, row.first_ms), max(last_ms, row.last_ms))
    if not edges:
        return _arrow([], _BYTES)
    steps = [
        (log, first_ms, last_ms, (last_ms - first_ms) // MOMENTS_MAX + 1)
        for log, (first_ms, last_ms) in edges.items()
    ]
    step_table = spark.createDataFrame(
        steps, "log string, first_ms bigint, last_ms bigint, step_ms bigint"
    )
    at = "least(first_ms + ((started_ms - first_ms) div step_ms + 1) * step_ms - 1, last_ms)"
    changes = spans.where(f"kind = '{CHANGE}'").join(step_table.hint("broadcast"), "log")
    grouped = changes.selectExpr("log", "tier", f"{at} AS at_ms", "size_bytes")
    summed = grouped.groupBy("log", "at_ms", "tier").sum("size_bytes").collect()
    return _arrow(list(_running(sorted(summed))), _BYTES)


def _running(changes: Sequence[tuple[str, int, int, int]]) -> Iterator[dict[str, Any]]:
    """Yields the bytes in each tier after each point in time, as running totals of the changes.

    `changes` are tuples of log, time, tier and bytes, sorted by log and time.
    """
    log, sizes = "", [0, 0, 0]
    for index, (name, at_ms, tier, change) in enumerate(changes):
        if name != log:
            log, sizes = name, [0, 0, 0]
        sizes[tier] += change
        if [tuple(following[:2]) for following in changes[index + 1 : index + 2]] != [
            (name, at_ms)
        ]:
            named = {f"tier{number}_bytes": size for number, size in enumerate(sizes)}
            yield {"log": log, "at": _EPOCH + timedelta(milliseconds=at_ms), **named}
