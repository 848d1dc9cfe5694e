"""The records of a manifest log as Arrow batches: one a row, and damage where it is, if wanted.

What all records have is taken column by column. Payloads are spread over columns of their own, the
records of one type at a time; a record has null in those that its type has not.
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

# Fields of payloads whose columns have other names; None: none of their own.
_NAMES: dict[type, dict[str, str | None]] = {
    SnapshotMarker: {"chunk_index": "marker_chunk_index", "chunk_offset": "marker_chunk_offset"},
    CustomEvent: {"blob": "data"},
    Unknown: {"record_type": None},
}
assert HydrationStarted._fields == ("source_tier",)
assert UploadFailed._fields == ("key", "reason_code")


class Row(NamedTuple):
    """An entry, and its number in the log if that is known."""

    entry: Entry
    number: int | None


@dataclass(frozen=True, kw_only=True)
class Reading:
    """Which records, and what is done about damage: told in its place, or raised."""

    until: Moment = field(default_factory=Moment)
    is_damage_told: bool = False


def recorded(store: ReadableStore, log: str) -> ReadableManifestLog | None:
    """The manifest log, if something is in it; `NotFound` if there is no such log."""
    found = store.manifest_log(log)
    if found is None:
        return None
    reader = found.reader
    return found if reader.chunk_indexes() or reader.snapshot_ids() else None


def record_batches(
    found: ReadableManifestLog,
    indexes: Sequence[int],
    *,
    last: int,
    reading: Reading,
    columns: Sequence[str] | None = None,
    rows_max: int = ROWS_MAX,
) -> Iterator[pa.RecordBatch]:
    """The records of these chunks; `last` is the newest of all when they were listed."""
    schema = FIELDS.schema(columns)
    rows: list[Row] = []
    for index in indexes:
        looked = survey_chunk(found.reader, index, is_last=index >= last)
        rows += _selected(found, index, looked, reading)
        if len(rows) >= rows_max:
            yield from parts(_batch(found, rows, schema), rows_max)
            rows = []
    if rows:
        yield from parts(_batch(found, rows, schema), rows_max)


def gap_batch(
    found: ReadableManifestLog, first: int, end: int, columns: Sequence[str] | None
) -> pa.RecordBatch:
    """The one row that tells of chunks that are not there."""
    return _batch(found, [Row(_missing(found, first, end), None)], FIELDS.schema(columns))


def missing_chunks(found: ReadableManifestLog, first: int, end: int) -> Corrupt:
    damage = _missing(found, first, end)
    return Corrupt(damage.problem, path=damage.path)


def _missing(found: ReadableManifestLog, first: int, end: int) -> Damaged:
    problem = "missing" if end == first + 1 else f"missing, with all up to number {end - 1}"
    return Damaged(Position(first, 0), "missing", found.reader.paths.chunk(first), problem)


def _selected(
    found: ReadableManifestLog, index: int, looked: SurveyedChunk | None, reading: Reading
) -> Iterator[Row]:
    if looked is None:
        if not reading.is_damage_told:
            path = found.reader.paths.chunk(index)
            raise Busy(f"{path}: it was removed before it was read; read the log again")
        rows: Iterator[Row] = iter([Row(_missing(found, index, index + 1), None)])
    else:
        if not reading.is_damage_told:
            _require_good(looked)
        rows = _numbered(looked)
        if not reading.is_damage_told and looked.judged is not None:
            rows = filter(_is_record, rows)  # a torn end is no damage
    includes = reading.until.includes
    for row in rows:
        entry = row.entry
        if isinstance(entry, Damaged):
            at = reading.until.position
            if at is None or entry.position < at:
                yield row
        elif includes(entry.position, entry.record):
            yield row


def _is_record(row: Row) -> bool:
    return not isinstance(row.entry, Damaged)


def _require_good(looked: SurveyedChunk) -> None:
    facts, judged = looked
    if facts.state == "newer":
        raise UnknownVersion(facts.problem, path=facts.path)
    if judged is None or judged.verdict is Verdict.CORRUPT:
        end = None if judged is None else judged.end
        raise Corrupt(facts.problem, path=facts.path, offset=end)


def _numbered(looked: SurveyedChunk) -> Iterator[Row]:
    """Those up to the first damage follow the number that the chunk begins with."""
    judged = looked.judged
    number = _base_record(judged)
    for entry in entries_of(looked):
        is_known = judged is not None and not isinstance(entry, Damaged) and number is not None
        if not is_known or judged is None or entry.position.offset >= judged.end:
            yield Row(entry, None)
        else:
            assert number is not None
            yield Row(entry, number)
            number += 1


def _base_record(judged: InspectedChunk | None) -> int | None:
    return None if judged is None or judged.header is None else judged.header.base_record


def _batch(found: ReadableManifestLog, rows: Sequence[Row], schema: pa.Schema) -> pa.RecordBatch:
    entries = [row.entry for row in rows]
    count = len(rows)
    columns: dict[str, Any] = {
        "log": partial(repeated, found.log, pa.string(), count),
        "stream": partial(repeated, found.stream, pa.string(), count),
        "chunk_index": lambda: numbers(unsigned(one.position.chunk_index for one in entries)),
        "chunk_offset": lambda: numbers(unsigned(one.position.offset for one in entries)),
        "record": lambda: pa.array([row.number for row in rows], pa.int64()),
        "problem": lambda: texts(list(map(_problem, entries))),
    }
    made = {name: columns[name]() for name in schema.names if name in columns}
    return batch_of(made | _of_records(entries, schema.names), schema)


def _problem(entry: Entry) -> str | None:
    return f"{entry.state}: {entry.problem}" if isinstance(entry, Damaged) else None


def _of_records(entries: Sequence[Entry], names: Sequence[str]) -> dict[str, pa.Array]:
    """The columns that only records have a value in."""
    count = len(entries)
    placed = [(row, one) for row, one in enumerate(entries) if isinstance(one, PlacedRecord)]
    places = np.fromiter((row for row, _ in placed), np.int64, len(placed))
    records = [one.record for _, one in placed]
    is_record = np.zeros(count, bool)
    is_record[places] = True

    def spread(values: Iterator[int]) -> np.ndarray:
        found = np.zeros(count, np.uint64)
        found[places] = unsigned(values)
        return found

    segments = spread(one.segment_id for one in records)
    made: dict[str, pa.Array] = {}
    for name in names:
        if name == "timestamp":
            made[name] = moments(spread(one.timestamp_ms for one in records), is_record)
        elif name == "segment_id":
            made[name] = numbers(segments, is_record & (segments != np.uint64(MANIFEST_ITSELF)))
        elif name == "logical_offset":
            made[name] = numbers(spread(one.logical_offset for one in records), is_record)
        elif name == "type":
            made[name] = texts(_scattered([one.type_name for one in records], places, count))
        elif name == "type_number":
            values = [one.type_number for one in records]
            made[name] = small_numbers(_scattered(values, places, count))
        elif name == "flags":
            made[name] = small_numbers(_scattered([one.flags for one in records], places, count))
    wanted = {*_NUMBERS, "key", "etag", "data"}.intersection(names)
    return made | _of_payloads(placed, wanted, count) if wanted else made


def _scattered(values: Sequence[Any], places: np.ndarray, count: int) -> list[Any]:
    if len(values) == count:
        return list(values)
    found = [None] * count
    for place, value in zip(places.tolist(), values, strict=True):
        found[place] = value
    return found


def _of_payloads(
    placed: Sequence[tuple[int, PlacedRecord]], wanted: set[str], count: int
) -> dict[str, pa.Array]:
    """One type after the other, each of its fields at once."""
    rows: dict[type, list[int]] = defaultdict(list)
    payloads: dict[type, list[tuple[Any, ...]]] = defaultdict(list)
    for row, (_, record) in placed:
        kind = type(record.payload)
        rows[kind].append(row)
        payloads[kind].append(record.payload)
    found = {name: np.zeros(count, np.uint64) for name in wanted.intersection(_NUMBERS)}
    is_there = {name: np.zeros(count, bool) for name in found}
    others: dict[str, list[Any]] = {name: [None] * count for name in wanted - found.keys()}
    for kind, members in payloads.items():
        places = np.array(rows[kind], np.int64)
        names = _NAMES.get(kind, {})
        for name, values in zip(kind._fields, zip(*members, strict=True), strict=True):
            column = names.get(name, name)
            if column in found:
                found[column][places] = unsigned(values)
                is_there[column][places] = True
            elif column in others:
                for place, value in zip(rows[kind], values, strict=True):
                    others[column][place] = value
    made = {name: numbers(found[name], is_there[name]) for name in found}
    for name, cells in others.items():
        made[name] = pa.array(cells, pa.binary()) if name == "data" else texts(cells)
    return made
