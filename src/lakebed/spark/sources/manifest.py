"""The data source `lakebed.manifest`: the manifest log of a log, as records or as segment states.

    spark.read.format("lakebed.manifest").option("path", root).option("log", "orders").load()
    (spark.read.format("lakebed.manifest").option("path", root).option("log", "orders")
        .option("view", "state").option("asOf", "2026-01-31T12:00:00Z").load())

Options:

- `path`: the store's folder, which the tasks must share; or `endpoint`, with `accessKey`,
  `secretKey` and `caFile`: the HTTP API, which serves the same files.
- `log`: its name, or its stream id. A log whose manifest log is empty has no rows.
- `view`: `records` (the default) or `state`.
- `asOf`: a time (all records up to and including that millisecond), a number (all records up to
  and including that `record`) or a position as in `lakebed manifest state --as-of` (`3:64`: all
  records before it). A record that does not exist is an error. In the view `state`, so is a
  position that does not exist, and a time or position before the start of the history; in the view
  `records`, a time before that start has no records.
- `onDamage`: `fail` (the default) raises an error, `tell` reports damage in the rows: see below. A
  torn end that a crash left in the last chunk does not fail a read, because no committed record is
  missing there; in the view `records`, `tell` reports it in a row too.
- `columns`: names separated by commas; all by default.
- `partitionBytes`: about how many bytes of chunks a task reads; 8 MiB by default.

The view `records`, in order within a task (rows for chunks that were missing when the read was
planned come first):

    log string, stream string, chunk_index bigint, chunk_offset bigint, record bigint, timestamp
    timestamp, segment_id bigint, logical_offset bigint, type string, type_number int, flags int,
    base_offset bigint, epoch bigint, durable_bytes bigint, segment_crc64 bigint, ext_id bigint,
    coordinator_watermark bigint, flush_failure bigint, job_id bigint, compressed_bytes bigint,
    dictionary_id bigint, reason_code bigint, source_tier bigint, resident_bytes bigint,
    reclaimed_bytes bigint, marker_chunk_index bigint, marker_chunk_offset bigint, snapshot_id
    bigint, schema_id bigint, key string, etag string, data binary, problem string

`record` is the number of the record, from 0; it is null after damage. `segment_id` is null in
records about the manifest log itself. The columns from `base_offset` to `data` are the payload,
null where a type has no such field; `data` is the payload of a `CustomEvent` or of an unknown type.
With `onDamage` `tell`, a damaged chunk returns all of its good records, and a row for each damage
at its position with the description in `problem`. Otherwise `problem` is null.

The view `state`, one row for each recorded segment that was not removed from all tiers:

    log string, stream string, as_of_record bigint, as_of timestamp, segment_id bigint, base_offset
    bigint, durable_bytes bigint, segment_crc64 bigint, ext_id bigint, coordinator_watermark bigint,
    opened_at timestamp, sealed_at timestamp, changed_at timestamp, resident_bytes bigint,
    compressed_bytes bigint, key string, etag string, upload_key string, epoch bigint, dictionary_id
    bigint, job_id bigint, in_tier0 boolean, in_tier1 boolean, in_tier2 boolean, is_compressing
    boolean, is_uploading boolean, is_hydrating boolean, is_deleting boolean, is_opened boolean,
    is_sealed boolean, has_flush_failure boolean, needs_repair boolean, compression_failed boolean,
    upload_failed boolean, hydration_failed boolean, residency bigint, pending bigint, condition
    bigint, failures bigint, hydration_source bigint, compression_reason bigint, upload_reason
    bigint, hydration_reason bigint, is_doubtful boolean

`as_of_record` is the last record that the state includes, and `as_of` its time. Unknown times and
texts are null. Pending deletions of objects that no segment uses are not shown. With `onDamage`
`tell`, damaged chunks are left out, and `is_doubtful` marks the segments that they may have
changed. Otherwise `is_doubtful` is false.

Unsigned numbers become the signed numbers with the same 64 bits. Each chunk is read and checked as
a whole, even while its log is being written. A chunk that is removed between planning and reading
is an error or, with `tell`, a row. The view `state` is read by one task; in the view `records`,
chunks are divided among tasks.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from lakebed.aof.manifest.paths import FileKind
from lakebed.aof.manifest.replay import Moment
from lakebed.api.read_surface import ReadableManifestLog, ReadableStore
from lakebed.base.clock import NS_PER_MS
from lakebed.base.errors import Busy, InputError
from lakebed.base.units import MIB
from lakebed.spark.arrow.columns import Fields
from lakebed.spark.backends import BACKEND_OPTIONS, Backend, backend_of
from lakebed.spark.options import Options
from lakebed.spark.sources import manifest_records, manifest_state
from lakebed.spark.sources.manifest_records import Reading, gap_batch, missing_chunks, recorded
from lakebed.spark.sources.manifest_state import position_after, state_batches
from lakebed.store.manifest_moments import looks_like_position, parse_position

NAME = "lakebed.manifest"
PARTITION_BYTES = 8 * MIB
VIEWS: Mapping[str, Fields] = {
    "records": manifest_records.FIELDS,
    "state": manifest_state.FIELDS,
}
_KNOWN = (*BACKEND_OPTIONS, "log", "view", "asOf", "onDamage", "columns", "partitionBytes")
_US_PER_MS = NS_PER_MS // 1000
_DIGITS_MAX = 18


@dataclass(frozen=True, kw_only=True)
class Request:
    """The parsed options of a read of `lakebed.manifest`."""

    backend: Backend
    log: str
    view: str
    moment: Moment | None
    record: int | None  # set if `asOf` is a record number
    reports_damage: bool
    columns: tuple[str, ...]
    partition_bytes: int

    @property
    def fields(self) -> Fields:
        return VIEWS[self.view]


class ChunkSplit(InputPartition):
    """The chunks of a manifest log that one task reads.

    They are consecutive, except for gaps where chunks are missing.
    """

    def __init__(self, *, last: int = 0, until: Moment | None = None) -> None:
        super().__init__(None)
        self.indexes: list[int] = []
        self.gaps: list[tuple[int, int]] = []  # half-open ranges of chunk indexes
        self.last = last  # the newest chunk of the log
        self.until = until

    def __bool__(self) -> bool:
        return bool(self.indexes or self.gaps)


class ManifestSource(DataSource):
    @classmethod
    def name(cls) -> str:
        return NAME

    def schema(self) -> str:
        request = request_of(self.options)
        return request.fields.ddl(request.columns)

    def reader(self, schema: StructType) -> ManifestSourceReader:  # noqa: ARG002
        return ManifestSourceReader(request_of(self.options))


class ManifestSourceReader(DataSourceReader):
    def __init__(self, request: Request) -> None:
        self._request = request

    def partitions(self) -> list[InputPartition]:
        if self._request.view == "state":
            return [InputPartition(None)]
        with self._request.backend.open() as store:
            manifest = recorded(store, self._request.log)
            return [ChunkSplit()] if manifest is None else list(self._split(manifest))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        with self._request.backend.open() as store:
            if not isinstance(partition, ChunkSplit):
                yield from self._states(store)
            elif partition:
                yield from self._records(store, partition)

    def _states(self, store: ReadableStore) -> Iterator[pa.RecordBatch]:
        request = self._request
        manifest = recorded(store, request.log)
        if manifest is not None:
            yield from state_batches(
                manifest,
                _moment(request, manifest),
                reports_damage=request.reports_damage,
                columns=request.columns,
            )

    def _records(self, store: ReadableStore, split: ChunkSplit) -> Iterator[pa.RecordBatch]:
        request = self._request
        manifest = store.manifest_log(request.log)
        if manifest is None:
            raise Busy(
                f"{request.log}: its manifest log was removed while the query ran; run the query "
                "again"
            )
        for first, end in split.gaps:
            yield gap_batch(manifest, first, end, request.columns)
        yield from manifest_records.record_batches(
            manifest,
            split.indexes,
            last=split.last,
            reading=Reading(until=split.until or Moment(), reports_damage=request.reports_damage),
            columns=request.columns,
        )

    def _split(self, manifest: ReadableManifestLog) -> list[ChunkSplit]:
        request, until = self._request, _moment(self._request, manifest)
        end = None if until is None else until.position
        sizes = {file.number: file.size for file in manifest.files() if file.kind is FileKind.CHUNK}
        indexes = sorted(sizes)
        last = indexes[-1] if indexes else 0
        splits = [ChunkSplit(last=last, until=until)]
        bytes_left = request.partition_bytes
        expected = indexes[0] if indexes else 0
        for index in indexes:
            if end is not None and index > end.chunk_index:
                break
            if bytes_left <= 0:
                splits.append(ChunkSplit(last=last, until=until))
                bytes_left = request.partition_bytes
            if index > expected:
                if not request.reports_damage:
                    raise missing_chunks(manifest, expected, index)
                splits[-1].gaps.append((expected, index))
            expected = index + 1
            splits[-1].indexes.append(index)
            bytes_left -= sizes[index]
        return splits


def request_of(values: Mapping[str, Any]) -> Request:
    """Parses the options of the data source. Raises `InputError` if they are invalid."""
    options = Options(NAME, values, known=_KNOWN)
    view = options.choice("view", tuple(VIEWS), default="records")
    moment, record = _as_of(options)
    return Request(
        backend=backend_of(options),
        log=options.required("log"),
        view=view,
        moment=moment,
        record=record,
        reports_damage=options.choice("onDamage", ("fail", "tell"), default="fail") == "tell",
        columns=columns_of(options, VIEWS[view]),
        partition_bytes=options.size("partitionBytes") or PARTITION_BYTES,
    )


def columns_of(options: Options, fields: Fields) -> tuple[str, ...]:
    """Returns the columns that the option `columns` names, or all columns.

    Raises `BadConfig` if a column does not exist.
    """
    try:
        return fields.checked(options.names("columns") or None)
    except InputError as error:
        raise options.wrong("columns", f"a list of columns: {error}") from None


def _as_of(options: Options) -> tuple[Moment | None, int | None]:
    text = options.text("asOf")
    if text is None:
        return None, None
    if text.isascii() and text.isdigit() and len(text) <= _DIGITS_MAX:
        return None, int(text)
    try:
        if looks_like_position(text):
            return Moment(position=parse_position(text)), None
        moment_us = options.moment_us("asOf")
    except InputError:
        requirement = (
            "a time such as 2026-01-31T12:00:00Z, a record number, or a position such as 3:64"
        )
        raise options.wrong("asOf", requirement) from None
    assert moment_us is not None, "asOf is set"
    return Moment(timestamp_ms=moment_us // _US_PER_MS), None


def _moment(request: Request, manifest: ReadableManifestLog) -> Moment | None:
    if request.record is None:
        return request.moment
    return Moment(position=position_after(manifest.reader, request.record))
