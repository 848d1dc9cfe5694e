"""The job `tier-history`: reports from the manifest logs in which tiers segments were, and for how
long.

    report = tier_history(spark, Backend(path=root), ["orders"], output="history")

It computes these tables, and writes them as Parquet and CSV into the output folder if there is one:

- `time_in_tier`: per log and tier, how many stays of segments in the tier have ended, how many
  continue, and percentiles of the duration of those that ended, in seconds. A stay that began
  before the history counts from the start of the history.
- `hydration_latency`: per log and source tier, the numbers of completed and failed hydrations, and
  percentiles of the duration of the completed ones in milliseconds.
- `upload_retries`: per log, the numbers of uploads, attempts, retries and failures, and percentiles
  of the duration of completed uploads in milliseconds.
- `bytes_per_tier`: per log, the bytes in each tier, at no more than a thousand points in time.

Unless they are turned off, plots of all tables but `upload_retries` go to the same folder as PNG
files. If retention removed the start of a manifest log, the history begins with the oldest snapshot
that can be read. Damaged parts of manifest logs are left out and reported.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from lakebed.base.errors import NotFound
from lakebed.spark.backends import Backend, backend_options
from lakebed.spark.jobs.report import Report
from lakebed.spark.jobs.tasks import in_tasks
from lakebed.spark.jobs.tier_history_fold import (
    STATE,
    spans_of,
)
from lakebed.spark.jobs.tier_history_output import table_lines, write_plots, write_tables
from lakebed.spark.jobs.tier_history_tables import HistoryTables, tables_of
from lakebed.spark.jobs.watcher import NullWatcher, Watcher
from lakebed.store.manifest_moments import history_beginning

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

NAME = "tier-history"

_SPANS = (
    "log string, segment_id bigint, kind string, tier int, started_ms bigint, ended_ms bigint, "
    "is_cut boolean, size_bytes bigint, outcome string, tries int, failures int"
)
_NUMBERS = (
    "base_offset", "epoch", "durable_bytes", "segment_crc64", "ext_id", "coordinator_watermark",
    "flush_failure", "job_id", "compressed_bytes", "dictionary_id", "reason_code", "source_tier",
    "resident_bytes", "reclaimed_bytes",
)  # fmt: skip
_PLACES = ("log", "chunk_index", "chunk_offset", "timestamp", "segment_id", "type")
_COLUMNS = (*_PLACES, *_NUMBERS, "key", "etag", "problem")
_AT = "unix_millis(timestamp) AS at_ms"


class Beginning(NamedTuple):
    """The position and time at which the history of a log begins in its manifest log."""

    log: str
    chunk_index: int
    chunk_offset: int
    at_ms: int
    is_cut: bool  # earlier history was removed


def tier_history(
    spark: SparkSession,
    backend: Backend,
    logs: Sequence[str] = (),
    *,
    output: str | os.PathLike[str] | None = None,
    plots: bool = True,
    watcher: Watcher | None = None,
) -> Report:
    """Analyses the tier history of these logs, or of all logs if `logs` is empty.

    Without `output`, no files are written. The lines of the report show all tables but
    `bytes_per_tier`. The report's `is_good` is False if damage of a manifest log was found.
    """
    watcher = watcher or NullWatcher()
    watcher.begin("list")
    [beginnings] = in_tasks(spark, partial(beginnings_in_task, tuple(logs)), [backend])
    watcher.begin("fold")
    history = HistoryTables({}, 0, [])
    if beginnings:
        spans = _spans(_rows(spark, backend, beginnings)).cache()
        history = tables_of(spark, spans)
        spans.unpersist()
    written: list[str] = []
    if output is not None and history.tables:
        watcher.begin("write")
        written = write_tables(history.tables, output)
        written += write_plots(history.tables, output) if plots else []
    return _report(beginnings, history, written)


# These functions run in tasks.


def beginnings_in_task(logs: Sequence[str], backend: Backend) -> list[Beginning]:
    """Returns where the history of each of these logs begins, or of all logs if `logs` is empty.

    A log is left out if its manifest log is empty, or if the start of its manifest log was removed
    and no snapshot can be read. Raises `NotFound` if a named log does not exist.
    """
    from lakebed.spark.sources.manifest_records import recorded

    beginnings = []
    with backend.open() as store:
        for name in logs or store.logs():
            manifest = recorded(store, name)
            if manifest is None:
                continue
            try:
                beginning = history_beginning(manifest.reader)
            except NotFound:
                continue  # no intact snapshot to begin with
            chunk_index, offset = beginning.position
            is_cut = manifest.reader.chunk_indexes()[:1] != [0]
            at_ms = beginning.timestamp_ms
            beginnings.append(Beginning(manifest.log, chunk_index, offset, at_ms, is_cut))
    return beginnings


def spans_in_task(table: pa.Table) -> pa.Table:
    """Converts the manifest records of one segment, in any order, to the spans of time that they
    describe.

    Rows about damage have no segment: they come together in a table of their own.
    """
    import pyarrow as pa

    ordered = table.sort_by([("chunk_index", "ascending"), ("chunk_offset", "ascending")])
    rows = ordered.to_pylist()
    about = {"log": rows[0]["log"], "segment_id": rows[0]["segment_id"]}
    spans = [about | span._asdict() for span in spans_of(rows)]
    return pa.Table.from_pylist(spans, schema=_span_schema())


def _span_schema() -> pa.Schema:
    import pyarrow as pa

    types = {
        "string": pa.string(),
        "bigint": pa.int64(),
        "int": pa.int32(),
        "boolean": pa.bool_(),
    }
    fields = [field.split(" ") for field in _SPANS.split(", ")]
    return pa.schema([(name, types[kind]) for name, kind in fields])


# Queries.


def _rows(spark: SparkSession, backend: Backend, beginnings: Sequence[Beginning]) -> DataFrame:
    """Returns the records about segments, and rows about damage, from the manifest logs of the logs
    in `beginnings`, which must not be empty.

    Each manifest log is read from the log's beginning on. If retention removed earlier records,
    also returns the state of each of the log's segments at its beginning.
    """
    frames = []
    for beginning in beginnings:
        frames.append(_records(spark, backend, beginning))
        if beginning.is_cut:
            frames.append(_states(spark, backend, beginning))
    union = frames[0]
    for frame in frames[1:]:
        union = union.unionByName(frame, allowMissingColumns=True)
    return union


def _source(spark: SparkSession, backend: Backend, log: str, **options: str) -> DataFrame:
    reader = spark.read.format("lakebed.manifest").options(**backend_options(backend))
    return reader.options(log=log, onDamage="tell", **options).load()


def _records(spark: SparkSession, backend: Backend, beginning: Beginning) -> DataFrame:
    """Returns the records about segments in a manifest log, and rows about its damage, from the
    beginning of the history.

    Large unsigned numbers, such as checksums, become negative here. That is harmless, because the
    job does not calculate with them.
    """
    frame = _source(spark, backend, beginning.log, columns=",".join(_COLUMNS))
    index, offset = beginning.chunk_index, beginning.chunk_offset
    frame = frame.where(
        f"chunk_index > {index} OR chunk_index = {index} AND chunk_offset >= {offset}"
        # Damage of a chunk as a whole (offset 0) also concerns its part after the beginning.
        f" OR chunk_index = {index} AND chunk_offset = 0 AND problem IS NOT NULL"
    )
    frame = frame.where("segment_id IS NOT NULL OR problem IS NOT NULL")
    no_state = ["CAST(NULL AS bigint) AS residency", "CAST(NULL AS bigint) AS pending"]
    return frame.selectExpr("*", _AT, *no_state).drop("timestamp")


def _states(spark: SparkSession, backend: Backend, beginning: Beginning) -> DataFrame:
    position = f"{beginning.chunk_index}:{beginning.chunk_offset}"
    frame = _source(spark, backend, beginning.log, view="state", asOf=position)
    return frame.selectExpr(
        "log",
        "CAST(-1 AS bigint) AS chunk_index",
        "CAST(0 AS bigint) AS chunk_offset",
        "segment_id",
        f"'{STATE}' AS type",
        "durable_bytes",
        "resident_bytes",
        "compressed_bytes",
        "key",
        "residency",
        "pending",
        f"CAST({beginning.at_ms} AS bigint) AS at_ms",
    )


def _spans(rows: DataFrame) -> DataFrame:
    return rows.groupBy("log", "segment_id").applyInArrow(spans_in_task, _SPANS)


def _report(
    beginnings: Sequence[Beginning], history: HistoryTables, written: Sequence[str]
) -> Report:
    uploads = _column_sums(history.tables.get("upload_retries"), ("uploads", "retries", "failures"))
    hydrations = _column_sums(history.tables.get("hydration_latency"), ("done", "failed"))
    return Report(
        NAME,
        row_count=history.record_count,
        facts={
            "logs": len(beginnings),
            "records": history.record_count,
            "uploads": uploads["uploads"],
            "upload_retries": uploads["retries"],
            "upload_failures": uploads["failures"],
            "hydrations": hydrations["done"],
            "hydration_failures": hydrations["failed"],
            "problems": len(history.problems),
            "files": list(written),
        },
        lines=tuple(_lines(beginnings, history)),
        is_good=not history.problems,
    )


def _lines(beginnings: Sequence[Beginning], history: HistoryTables) -> Iterator[str]:
    yield from history.problems
    yield from (f"note: {note}" for note in history.notes)
    for beginning in beginnings:
        if beginning.is_cut:
            yield f"note: {beginning.log}: the history before its oldest snapshot was removed"
    for name in ("time_in_tier", "hydration_latency", "upload_retries"):
        if name in history.tables and history.tables[name].num_rows:
            yield from (f"{name}:", *table_lines(history.tables[name]), "")


def _column_sums(table: pa.Table | None, names: Sequence[str]) -> dict[str, int]:
    if table is None:
        return dict.fromkeys(names, 0)
    return {name: sum(table.column(name).to_pylist()) for name in names}
