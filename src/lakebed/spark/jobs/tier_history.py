"""`tier-history`: what the manifest logs say of where segments were, when, and for how long.

    report = tier_history(spark, Backend(path=root), ["orders"], output="history")

Tables, each as Parquet and CSV in the output folder:

- `time_in_tier`: of each log and tier, how many stays ended and how many go on, and the percentiles
  of those that ended, in seconds. A stay that began before the history counts from its beginning.
- `hydration_latency`: of each log and the tier it came from, in milliseconds.
- `upload_retries`: of each log, uploads, tries, and how often one was tried again.
- `bytes_per_tier`: of each log, how many bytes each tier had, at a thousand moments at most.

Plots of the first two and the last are PNGs beside them. History that retention removed is not
there: it begins with the oldest snapshot then. Damaged chunks are left out, and told.
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
    """Of a log's history."""

    log: str
    chunk_index: int
    chunk_offset: int
    at_ms: int
    is_cut: bool  # there was more before it


def tier_history(
    spark: SparkSession,
    backend: Backend,
    logs: Sequence[str] = (),
    *,
    output: str | os.PathLike[str] | None = None,
    plots: bool = True,
    watcher: Watcher | None = None,
) -> Report:
    """Of these logs, or of all. Without `output` the tables are only told. `is_good` is False if
    part of a manifest log is damaged."""
    watcher = watcher or NullWatcher()
    watcher.begin("list")
    [beginnings] = in_tasks(spark, partial(beginnings_in_task, tuple(logs)), [backend])
    watcher.begin("fold")
    found = HistoryTables({}, 0, [])
    if beginnings:
        spans = _spans(_rows(spark, backend, beginnings)).cache()
        found = tables_of(spark, spans)
        spans.unpersist()
    written: list[str] = []
    if output is not None and found.tables:
        watcher.begin("write")
        written = write_tables(found.tables, output)
        written += write_plots(found.tables, output) if plots else []
    return _report(beginnings, found, written)


# In the tasks.


def beginnings_in_task(logs: Sequence[str], backend: Backend) -> list[Beginning]:
    """Of those that have a history; `NotFound` if one is asked for that is not there."""
    from lakebed.spark.sources.manifest_records import recorded

    found = []
    with backend.open() as store:
        for name in logs or store.logs():
            manifest = recorded(store, name)
            if manifest is None:
                continue
            try:
                beginning = history_beginning(manifest.reader)
            except NotFound:
                continue  # there is no good snapshot that it could begin with
            chunk_index, offset = beginning.position
            is_cut = manifest.reader.chunk_indexes()[:1] != [0]
            at_ms = beginning.timestamp_ms
            found.append(Beginning(manifest.log, chunk_index, offset, at_ms, is_cut))
    return found


def spans_in_task(table: pa.Table) -> pa.Table:
    """Of one segment: `rows` in any order."""
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
    """The records of all logs, and what is known before the first of each."""
    frames = []
    for beginning in beginnings:
        frames.append(_records(spark, backend, beginning))
        if beginning.is_cut:
            frames.append(_states(spark, backend, beginning))
    whole = frames[0]
    for frame in frames[1:]:
        whole = whole.unionByName(frame, allowMissingColumns=True)
    return whole


def _source(spark: SparkSession, backend: Backend, log: str, **options: str) -> DataFrame:
    reader = spark.read.format("lakebed.manifest").options(**backend_options(backend))
    return reader.options(log=log, onDamage="tell", **options).load()


def _records(spark: SparkSession, backend: Backend, beginning: Beginning) -> DataFrame:
    """Numbers without a sign that are larger than a signed one only matter as equal or not."""
    frame = _source(spark, backend, beginning.log, columns=",".join(_COLUMNS))
    index, offset = beginning.chunk_index, beginning.chunk_offset
    frame = frame.where(
        f"chunk_index > {index} OR chunk_index = {index} AND chunk_offset >= {offset}"
    )
    frame = frame.where("segment_id IS NOT NULL OR problem IS NOT NULL")
    none = ["CAST(NULL AS bigint) AS residency", "CAST(NULL AS bigint) AS pending"]
    return frame.selectExpr("*", _AT, *none).drop("timestamp")


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
    beginnings: Sequence[Beginning], found: HistoryTables, written: Sequence[str]
) -> Report:
    uploads = _column_sums(found.tables.get("upload_retries"), ("uploads", "retries", "failures"))
    hydrations = _column_sums(found.tables.get("hydration_latency"), ("done", "failed"))
    return Report(
        NAME,
        row_count=found.record_count,
        facts={
            "logs": len(beginnings),
            "records": found.record_count,
            "uploads": uploads["uploads"],
            "upload_retries": uploads["retries"],
            "upload_failures": uploads["failures"],
            "hydrations": hydrations["done"],
            "hydration_failures": hydrations["failed"],
            "problems": len(found.problems),
            "files": list(written),
        },
        lines=tuple(_lines(beginnings, found)),
        is_good=not found.problems,
    )


def _lines(beginnings: Sequence[Beginning], found: HistoryTables) -> Iterator[str]:
    yield from found.problems
    yield from (f"note: {note}" for note in found.notes)
    for beginning in beginnings:
        if beginning.is_cut:
            yield f"note: {beginning.log}: what was before its oldest snapshot is not known"
    for name in ("time_in_tier", "hydration_latency", "upload_retries"):
        if name in found.tables and found.tables[name].num_rows:
            yield from (f"{name}:", *table_lines(found.tables[name]), "")


def _column_sums(table: pa.Table | None, names: Sequence[str]) -> dict[str, int]:
    if table is None:
        return dict.fromkeys(names, 0)
    return {name: sum(table.column(name).to_pylist()) for name in names}
