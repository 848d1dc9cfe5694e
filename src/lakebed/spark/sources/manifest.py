"""`lakebed.manifest`: the manifest log of a log, its records or what they say of each segment.

    spark.read.format("lakebed.manifest").option("path", root).option("log", "orders").load()
    (spark.read.format("lakebed.manifest").option("path", root).option("log", "orders")
        .option("view", "state").option("asOf", "2026-01-31T12:00:00Z").load())

Options:

- `path`: the store's folder, which the tasks must share; or `endpoint`, with `accessKey`,
  `secretKey` and `caFile`: the HTTP API, which gives out the same files.
- `log`: its name, or its stream id. A log of which nothing is recorded yet has no rows.
- `view`: `records` (the default) or `state`.
- `asOf`: a time (all records up to it, that millisecond included), a number (all records up to that
  `record`, itself included) or a place as `lakebed manifest state --as-of` takes it (`3:64`, all
  records before it). A moment before the history, or a record or place that is not there, is an
  error; of a time before the history there are no records, and no state.
- `onDamage`: `fail` (the default) or `tell`. A torn end that a crash left in the last chunk is no
  damage; what was committed before it is there.
- `columns`: some of them, between commas. `partitionBytes`: of chunks in one task, 8 MiB.

Records, in their order within a task:

    log string, stream string, chunk_index bigint, chunk_offset bigint, record bigint, timestamp
    timestamp, segment_id bigint, logical_offset bigint, type string, type_number int, flags int,
    base_offset bigint, epoch bigint, durable_bytes bigint, segment_crc64 bigint, ext_id bigint,
    coordinator_watermark bigint, flush_failure bigint, job_id bigint, compressed_bytes bigint,
    dictionary_id bigint, reason_code bigint, source_tier bigint, resident_bytes bigint,
    reclaimed_bytes bigint, marker_chunk_index bigint, marker_chunk_offset bigint, snapshot_id
    bigint, schema_id bigint, key string, etag string, data binary, problem string

`record` counts from the log's first record on, which is 0; it is null behind damage. `segment_id`
is null in what is about the manifest log itself. From `base_offset` to `data` stands the payload:
null where a type has no such field; `data` is that of a `CustomEvent`, or of a type that is not
known. With `onDamage` `tell` every good record of a damaged chunk is a row, and so is each damage,
at its place, with what is wrong as its `problem`; else that is null.

State, one row for each segment that some tier has:

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

`as_of_record` is the last record that is folded in, `as_of` its time. Times and texts that are not
known are null. Deletes that are owed of objects that no segment has any more are in no row. With
`onDamage` `tell` chunks that are damaged are left out, and `is_doubtful` says of which segments
they may have told more; else it is false.

Numbers without a sign are the signed ones of the same 64 bits. Each chunk is read and judged as a
whole, beside its writer; one that is removed between the planning and its reading is an error, or
with `tell` a row. The fold is one task; records are split by chunks.
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
from lakebed.base.errors import BadConfig, Busy, InputError
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
    """What the options ask for."""

    backend: Backend
    log: str
    view: str
    moment: Moment | None
    record: int | None  # that of `asOf`, if it is one
    is_damage_told: bool
    columns: tuple[str, ...]
    partition_bytes: int

    @property
    def fields(self) -> Fields:
        return VIEWS[self.view]


class ChunkSplit(InputPartition):
    """Chunks that follow each other, but for those that are missing before one of them."""

    def __init__(self, *, last: int = 0, until: Moment | None = None) -> None:
        super().__init__(None)
        self.indexes: list[int] = []
        self.gaps: list[tuple[int, int]] = []  # first and end
        self.last = last  # the newest chunk of all
        self.until = until

    def __bool__(self) -> bool:
        return bool(self.indexes or self.gaps)


class ManifestSource(DataSource):
    """See the module."""

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
            found = recorded(store, self._request.log)
            return [ChunkSplit()] if found is None else list(self._split(found))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        with self._request.backend.open() as store:
            if not isinstance(partition, ChunkSplit):
                yield from self._states(store)
            elif partition:
                yield from self._records(store, partition)

    def _states(self, store: ReadableStore) -> Iterator[pa.RecordBatch]:
        request = self._request
        found = recorded(store, request.log)
        if found is not None:
            yield from state_batches(
                found,
                _moment(request, found),
                is_damage_told=request.is_damage_told,
                columns=request.columns,
            )

    def _records(self, store: ReadableStore, split: ChunkSplit) -> Iterator[pa.RecordBatch]:
        request = self._request
        found = store.manifest_log(request.log)
        if found is None:
            raise Busy(f"{request.log}: its manifest log was removed; read it again")
        for first, end in split.gaps:
            yield gap_batch(found, first, end, request.columns)
        yield from manifest_records.record_batches(
            found,
            split.indexes,
            last=split.last,
            reading=Reading(until=split.until or Moment(), is_damage_told=request.is_damage_told),
            columns=request.columns,
        )

    def _split(self, found: ReadableManifestLog) -> list[ChunkSplit]:
        request, until = self._request, _moment(self._request, found)
        end = None if until is None else until.position
        sizes = {one.number: one.size for one in found.files() if one.kind is FileKind.CHUNK}
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
                if not request.is_damage_told:
                    raise missing_chunks(found, expected, index)
                splits[-1].gaps.append((expected, index))
            expected = index + 1
            splits[-1].indexes.append(index)
            bytes_left -= sizes[index]
        return splits


def request_of(given: Mapping[str, Any]) -> Request:
    """`BadConfig` if the options are not what they must be."""
    options = Options(NAME, given, known=_KNOWN)
    view = options.choice("view", tuple(VIEWS), default="records")
    moment, record = _as_of(options)
    return Request(
        backend=backend_of(options),
        log=options.required("log"),
        view=view,
        moment=moment,
        record=record,
        is_damage_told=options.choice("onDamage", ("fail", "tell"), default="fail") == "tell",
        columns=columns_of(options, VIEWS[view]),
        partition_bytes=options.size("partitionBytes") or PARTITION_BYTES,
    )


def columns_of(options: Options, fields: Fields) -> tuple[str, ...]:
    """Those that were named, or all."""
    try:
        return fields.checked(options.names("columns") or None)
    except InputError as error:
        raise options.wrong("columns", f"some of the columns: {error}") from None


def _as_of(options: Options) -> tuple[Moment | None, int | None]:
    text = options.text("asOf")
    if text is None:
        return None, None
    if text.isascii() and text.isdigit() and len(text) <= _DIGITS_MAX:
        return None, int(text)
    if looks_like_position(text):
        return Moment(position=parse_position(text)), None
    try:
        moment_us = options.moment_us("asOf")
    except BadConfig:
        wanted = "a time as 2026-01-31T12:00:00Z, a record's number, or a place as 3:64"
        raise options.wrong("asOf", wanted) from None
    assert moment_us is not None, "it was given"
    return Moment(timestamp_ms=moment_us // _US_PER_MS), None


def _moment(request: Request, found: ReadableManifestLog) -> Moment | None:
    if request.record is None:
        return request.moment
    return Moment(position=position_after(found.reader, request.record))
