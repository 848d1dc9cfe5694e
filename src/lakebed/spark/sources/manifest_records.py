"""Converts the records of a manifest log to Arrow batches, with one record per row.

If requested, damage is a row too. The fields that all records have are converted column by column.
Payload fields have their own columns and are converted by record type; a record has null in columns
that its type does not have.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from lakebed.aof.manifest.chunk import InspectedChunk, PlacedRecord, Verdict
from lakebed.aof.manifest.format import MANIFEST_ITSELF, HydrationStarted, SnapshotMarker
from lakebed.aof.manifest.records import CustomEvent, Position, Unknown, UploadFailed
from lakebed.aof.manifest.replay import Moment
from lakebed.api.read_surface import ReadableManifestLog, ReadableStore
from lakebed.base.errors import Busy, Corrupt, UnknownVersion
from lakebed.spark.arrow.columns import ROWS_MAX, TIMESTAMP, Fields, parts, repeated
from lakebed.spark.sources.cells import batch_of, moments, numbers, small_numbers, texts, unsigned
from lakebed.store.manifest_survey import Damaged, Entry, SurveyedChunk, entries_of, survey_chunk

_BIGINT = ("bigint", pa.int64())
_STRING = ("string", pa.string())

_NUMBERS = (
    "base_offset",
    "epoch",
    "durable_bytes",
    "segment_crc64",
    "ext_id",
    "coordinator_watermark",
    "flush_failure",
    "job_id",
    "compressed_bytes",
    "dictionary_id",
    "reason_code",
    "source_tier",
    "resident_bytes",
    "reclaimed_bytes",
    "marker_chunk_index",
    "marker_chunk_offset",
    "snapshot_id",
    "schema_id",
)

FIELDS = Fields(
    {
        "log": _STRING,
        "stream": _STRING,
        "chunk_index": _BIGINT,
        "chunk_offset": _BIGINT,
        "record": _BIGINT,
        "timestamp": ("timestamp", TIMESTAMP),
        "segment_id": _BIGINT,
        "logical_offset": _BIGINT,
        "type": _STRING,
        "type_number": ("int", pa.int32()),
        "flags": ("int", pa.int32()),
        **dict.fromkeys(_NUMBERS, _BIGINT),
        "key": _STRING,
        "etag": _STRING,
        "data": ("binary", pa.binary()),
        "problem": _STRING,
    }
)

# Payload fields whose column has another name. None means that there is no column.
_NAMES: dict[type, dict[str, str | None]] = {
    SnapshotMarker: {"chunk_index": "marker_chunk_index", "chunk_offset": "marker_chunk_offset"},
    CustomEvent: {"blob": "data"},
    Unknown: {"record_type": None},
}
assert HydrationStarted._fields == ("source_tier",)
assert UploadFailed._fields == ("key", "reason_code")


class Row(NamedTuple):
    """An entry of the manifest log (a record or damage), and the number of the record if known."""

    entry: Entry
    number: int | None


@dataclass(frozen=True, kw_only=True)
class Reading:
    """How far to read a manifest log, and whether damage is returned as a row or raised."""

    until: Moment = field(default_factory=Moment)
    reports_damage: bool = False


def recorded(store: ReadableStore, log: str) -> ReadableManifestLog | None:
    """Returns the manifest log of a log, or None if it is empty.

    Raises `NotFound` if the log does not exist.
    """
    manifest = store.manifest_log(log)
    if manifest is None:
        return None
    reader = manifest.reader
    return manifest if reader.chunk_indexes() or reader.snapshot_ids() else None


def record_batches(
    manifest: ReadableManifestLog,
    indexes: Sequence[int],
    *,
    last: int,
    reading: Reading,
    columns: Sequence[str] | None = None,
    rows_max: int = ROWS_MAX,
) -> Iterator[pa.RecordBatch]:
    """Yields the records of these chunks as Arrow batches.

    `indexes` are the chunks; `last` is the newest chunk of the log when the read was planned.
    """
    schema = FIELDS.schema(columns)
    rows: list[Row] = []
    for index in indexes:
        chunk = survey_chunk(manifest.reader, index, is_last=index >= last)
        rows += _selected(manifest, index, chunk, reading)
        if len(rows) >= rows_max:
            yield from parts(_batch(manifest, rows, schema), rows_max)
            rows = []
    if rows:
        yield from parts(_batch(manifest, rows, schema), rows_max)


def gap_batch(
    manifest: ReadableManifestLog, first: int, end: int, columns: Sequence[str] | None
) -> pa.RecordBatch:
    """Returns a batch of one row, which reports that the chunks `[first, end)` are missing."""
    return _batch(manifest, [Row(_missing(manifest, first, end), None)], FIELDS.schema(columns))


def missing_chunks(manifest: ReadableManifestLog, first: int, end: int) -> Corrupt:
    damage = _missing(manifest, first, end)
    return Corrupt(damage.problem, path=damage.path)


def _missing(manifest: ReadableManifestLog, first: int, end: int) -> Damaged:
    problem = (
        "the chunk is missing"
        if end == first + 1
        else f"the chunk is missing, and so are those up to number {end - 1}"
    )
    return Damaged(Position(first, 0), "missing", manifest.reader.paths.chunk(first), problem)


def _selected(
    manifest: ReadableManifestLog, index: int, chunk: SurveyedChunk | None, reading: Reading
) -> Iterator[Row]:
    if chunk is None:
        if not reading.reports_damage:
            path = manifest.reader.paths.chunk(index)
            raise Busy(f"{path}: the chunk was removed before it was read; run the query again")
        rows: Iterator[Row] = iter([Row(_missing(manifest, index, index + 1), None)])
    else:
        if not reading.reports_damage:
            _require_good(chunk)
        rows = _numbered(chunk)
        if not reading.reports_damage and chunk.judged is not None:
            rows = filter(_is_record, rows)  # a torn end is not damage
    includes = reading.until.includes
    for row in rows:
        entry = row.entry
        if isinstance(entry, Damaged):
            end = reading.until.position
            if end is None or entry.position < end:
                yield row
        elif includes(entry.position, entry.record):
            yield row


def _is_record(row: Row) -> bool:
    return not isinstance(row.entry, Damaged)


def _require_good(chunk: SurveyedChunk) -> None:
    facts, judged = chunk
    if facts.state == "newer":
        raise UnknownVersion(facts.problem, path=facts.path)
    if judged is None or judged.verdict is Verdict.CORRUPT:
        end = None if judged is None else judged.end
        raise Corrupt(facts.problem, path=facts.path, offset=end)


def _numbered(chunk: SurveyedChunk) -> Iterator[Row]:
    """Yields the entries of a chunk, each with the number of its record.

    The first record has the number that the chunk's header states. Entries after damage have no
    number.
    """
    judged = chunk.judged
    number = _base_record(judged)
    for entry in entries_of(chunk):
        is_known = judged is not None and not isinstance(entry, Damaged) and number is not None
        if not is_known or judged is None or entry.position.offset >= judged.end:
            yield Row(entry, None)
        else:
            assert number is not None
            yield Row(entry, number)
            number += 1


def _base_record(judged: InspectedChunk | None) -> int | None:
    return None if judged is None or judged.header is None else judged.header.base_record


def _batch(manifest: ReadableManifestLog, rows: Sequence[Row], schema: pa.Schema) -> pa.RecordBatch:
    entries = [row.entry for row in rows]
    count = len(rows)
    columns: dict[str, Any] = {
        "log": partial(repeated, manifest.log, pa.string(), count),
        "stream": partial(repeated, manifest.stream, pa.string(), count),
        "chunk_index": lambda: numbers(unsigned(entry.position.chunk_index for entry in entries)),
        "chunk_offset": lambda: numbers(unsigned(entry.position.offset for entry in entries)),
        "record": lambda: pa.array([row.number for row in rows], pa.int64()),
        "problem": lambda: texts(list(map(_problem, entries))),
    }
    converted = {name: columns[name]() for name in schema.names if name in columns}
    return batch_of(converted | _of_records(entries, schema.names), schema)


def _problem(entry: Entry) -> str | None:
    return f"{entry.state}: {entry.problem}" if isinstance(entry, Damaged) else None


def _of_records(entries: Sequence[Entry], names: Sequence[str]) -> dict[str, pa.Array]:
    """Returns the requested columns that only records have; they are null in rows that report
    damage.
    """
    count = len(entries)
    placed = [(row, entry) for row, entry in enumerate(entries) if isinstance(entry, PlacedRecord)]
    places = np.fromiter((row for row, _ in placed), np.int64, len(placed))
    records = [entry.record for _, entry in placed]
    is_record = np.zeros(count, bool)
    is_record[places] = True

    def spread(values: Iterator[int]) -> np.ndarray:
        column = np.zeros(count, np.uint64)
        column[places] = unsigned(values)
        return column

    segments = spread(record.segment_id for record in records)
    converted: dict[str, pa.Array] = {}
    for name in names:
        if name == "timestamp":
            converted[name] = moments(spread(record.timestamp_ms for record in records), is_record)
        elif name == "segment_id":
            converted[name] = numbers(
                segments, is_record & (segments != np.uint64(MANIFEST_ITSELF))
            )
        elif name == "logical_offset":
            converted[name] = numbers(
                spread(record.logical_offset for record in records), is_record
            )
        elif name == "type":
            converted[name] = texts(
                _scattered([record.type_name for record in records], places, count)
            )
        elif name == "type_number":
            values = [record.type_number for record in records]
            converted[name] = small_numbers(_scattered(values, places, count))
        elif name == "flags":
            converted[name] = small_numbers(
                _scattered([record.flags for record in records], places, count)
            )
    payload_columns = {*_NUMBERS, "key", "etag", "data"}.intersection(names)
    return (
        converted | _of_payloads(placed, payload_columns, count) if payload_columns else converted
    )


def _scattered(values: Sequence[Any], places: np.ndarray, count: int) -> list[Any]:
    if len(values) == count:
        return list(values)
    cells = [None] * count
    for place, value in zip(places.tolist(), values, strict=True):
        cells[place] = value
    return cells


def _of_payloads(
    placed: Sequence[tuple[int, PlacedRecord]], columns: set[str], count: int
) -> dict[str, pa.Array]:
    """Returns the payload columns, converted by record type.

    `placed` are the records with their row numbers, and `count` is the number of rows.
    """
    rows: dict[type, list[int]] = defaultdict(list)
    payloads: dict[type, list[tuple[Any, ...]]] = defaultdict(list)
    for row, (_, record) in placed:
        kind = type(record.payload)
        rows[kind].append(row)
        payloads[kind].append(record.payload)
    integers = {name: np.zeros(count, np.uint64) for name in columns.intersection(_NUMBERS)}
    is_there = {name: np.zeros(count, bool) for name in integers}
    others: dict[str, list[Any]] = {name: [None] * count for name in columns - integers.keys()}
    for kind, members in payloads.items():
        places = np.array(rows[kind], np.int64)
        names = _NAMES.get(kind, {})
        for name, values in zip(kind._fields, zip(*members, strict=True), strict=True):
            column = names.get(name, name)
            if column in integers:
                integers[column][places] = unsigned(values)
                is_there[column][places] = True
            elif column in others:
                for place, value in zip(rows[kind], values, strict=True):
                    others[column][place] = value
    converted = {name: numbers(integers[name], is_there[name]) for name in integers}
    for name, cells in others.items():
        converted[name] = pa.array(cells, pa.binary()) if name == "data" else texts(cells)
    return converted
