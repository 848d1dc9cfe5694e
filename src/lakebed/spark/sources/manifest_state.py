"""Computes the state of each segment at some moment from the manifest log, as Arrow batches.

The engine computes the state (`store.manifest_moments`). The moment is a time (all records up to it
are included), a position (all records before it are included), or the number of the last record to
include. The columns are the fields of a segment's state, and each bit of its flags.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice

import numpy as np
import pyarrow as pa

from lakebed.aof.manifest.chunk import Verdict
from lakebed.aof.manifest.reader import ManifestReader
from lakebed.aof.manifest.records import Position
from lakebed.aof.manifest.replay import Moment, ReplayResult
from lakebed.aof.manifest.state import Condition, Failures, Pending, Residency, SegmentState
from lakebed.api.read_surface import ReadableManifestLog
from lakebed.base.errors import Corrupt, NotFound
from lakebed.spark.arrow.columns import ROWS_MAX, TIMESTAMP, Fields, repeated
from lakebed.spark.sources.cells import batch_of, flags, moments, numbers, texts, unsigned
from lakebed.store.manifest_moments import history_beginning, state_as_of

_BIGINT = ("bigint", pa.int64())
_BOOLEAN = ("boolean", pa.bool_())
_STRING = ("string", pa.string())
_TIMESTAMP = ("timestamp", TIMESTAMP)

_TIMES = {"opened_at": "opened_at_ms", "sealed_at": "sealed_at_ms", "changed_at": "changed_at_ms"}
_TEXTS = ("key", "etag", "upload_key")
_BITS: dict[str, tuple[str, int]] = {
    "in_tier0": ("residency", Residency.TIER0.value),
    "in_tier1": ("residency", Residency.TIER1.value),
    "in_tier2": ("residency", Residency.TIER2.value),
    "is_compressing": ("pending", Pending.COMPRESSION.value),
    "is_uploading": ("pending", Pending.UPLOAD.value),
    "is_hydrating": ("pending", Pending.HYDRATION.value),
    "is_deleting": ("pending", Pending.DELETE.value),
    "is_opened": ("condition", Condition.OPENED.value),
    "is_sealed": ("condition", Condition.SEALED.value),
    "has_flush_failure": ("condition", Condition.FLUSH_FAILURE.value),
    "needs_repair": ("condition", Condition.NEEDS_REPAIR.value),
    "compression_failed": ("failures", Failures.COMPRESSION.value),
    "upload_failed": ("failures", Failures.UPLOAD.value),
    "hydration_failed": ("failures", Failures.HYDRATION.value),
}

FIELDS = Fields(
    {
        "log": _STRING,
        "stream": _STRING,
        "as_of_record": _BIGINT,
        "as_of": _TIMESTAMP,
        "segment_id": _BIGINT,
        "base_offset": _BIGINT,
        "durable_bytes": _BIGINT,
        "segment_crc64": _BIGINT,
        "ext_id": _BIGINT,
        "coordinator_watermark": _BIGINT,
        **dict.fromkeys(_TIMES, _TIMESTAMP),
        "resident_bytes": _BIGINT,
        "compressed_bytes": _BIGINT,
        **dict.fromkeys(_TEXTS, _STRING),
        "epoch": _BIGINT,
        "dictionary_id": _BIGINT,
        "job_id": _BIGINT,
        **dict.fromkeys(_BITS, _BOOLEAN),
        "residency": _BIGINT,
        "pending": _BIGINT,
        "condition": _BIGINT,
        "failures": _BIGINT,
        "hydration_source": _BIGINT,
        "compression_reason": _BIGINT,
        "upload_reason": _BIGINT,
        "hydration_reason": _BIGINT,
        "is_doubtful": _BOOLEAN,
    }
)


def state_batches(
    manifest: ReadableManifestLog,
    moment: Moment | None,
    *,
    reports_damage: bool,
    columns: Sequence[str] | None = None,
    rows_max: int = ROWS_MAX,
) -> Iterator[pa.RecordBatch]:
    """Yields the state of each segment at the moment, sorted by segment id.

    Without a moment, it is the newest state. If `reports_damage`, a column marks the segments whose
    state is doubtful because of damage; otherwise damage raises `Corrupt`.
    """
    replayed = state_as_of(manifest.reader, moment)
    if not reports_damage:
        _require_whole(manifest, replayed)
    schema = FIELDS.schema(columns)
    states = replayed.index.segments()
    while page := list(islice(states, rows_max)):
        yield _batch(manifest, replayed, page, schema)


def position_after(reader: ManifestReader, record: int) -> Position:
    """Returns the position directly after the record with this number.

    The state at that position includes the record, and none after it. Raises `NotFound` if the
    record does not exist or was removed, and `Corrupt` if it cannot be found because of damage.
    """
    indexes = reader.chunk_indexes()
    for index in reversed(indexes):
        judged = reader.chunk(index, is_last=index == indexes[-1])
        if judged.header is None:
            raise Corrupt(judged.problem, path=reader.paths.chunk(index))
        number = record - judged.header.base_record
        if number < 0:
            continue
        if number < len(judged.records):
            following = judged.records[number + 1 : number + 2]
            return following[0].position if following else Position(index, judged.end)
        if judged.verdict is Verdict.CORRUPT:
            raise Corrupt(judged.problem, path=reader.paths.chunk(index), offset=judged.end)
        count = judged.header.base_record + len(judged.records)
        last = f"the last record is {count - 1}" if count else "the manifest log is empty"
        raise NotFound(f"record {record} does not exist; {last}")
    if not indexes:
        raise NotFound(f"record {record} does not exist; the manifest log is empty")
    beginning = history_beginning(reader)
    raise NotFound(f"record {record} was removed; the history begins at {beginning.position}")


def _require_whole(manifest: ReadableManifestLog, replayed: ReplayResult) -> None:
    for damage in replayed.damages:
        raise Corrupt(damage.problem, path=manifest.reader.paths.chunk(damage.chunk_index))
    last = replayed.last
    if last is not None and last.verdict is Verdict.CORRUPT:
        path = manifest.reader.paths.chunk(last.chunk_index)
        raise Corrupt(last.problem, path=path, offset=last.end)


def _batch(
    manifest: ReadableManifestLog,
    replayed: ReplayResult,
    states: Sequence[SegmentState],
    schema: pa.Schema,
) -> pa.RecordBatch:
    count = len(states)
    values = dict(zip(SegmentState._fields, zip(*states, strict=True), strict=True))
    converted: dict[str, pa.Array] = {}
    for name in schema.names:
        if name == "log":
            converted[name] = repeated(manifest.log, pa.string(), count)
        elif name == "stream":
            converted[name] = repeated(manifest.stream, pa.string(), count)
        elif name == "as_of_record":
            converted[name] = repeated(replayed.index.record_count - 1, pa.int64(), count)
        elif name == "as_of":
            last_ms = np.full(count, replayed.index.last_timestamp_ms, np.uint64)
            converted[name] = moments(last_ms)
        elif name == "is_doubtful":
            converted[name] = pa.array(_doubts(replayed, values["segment_id"]), pa.bool_())
        elif name in _BITS:
            source, bit = _BITS[name]
            converted[name] = flags(unsigned(values[source]), bit)
        elif name in _TIMES:
            times = unsigned(values[_TIMES[name]])
            converted[name] = moments(times, times != 0)
        elif name in _TEXTS:
            converted[name] = texts([text or None for text in values[name]])
        else:
            converted[name] = numbers(unsigned(values[name]))
    return batch_of(converted, schema)


def _doubts(replayed: ReplayResult, segment_ids: Sequence[int]) -> list[bool]:
    """Returns for each segment whether its state is in doubt because of damage.

    A damaged chunk may concern any segment, unless it is known which segments it concerns.
    """
    last = replayed.last
    is_cut = last is not None and last.verdict is Verdict.CORRUPT and last.is_usable
    if is_cut or any(not damage.segment_ids for damage in replayed.damages):
        return [True] * len(segment_ids)
    affected = frozenset[int]().union(*(damage.segment_ids for damage in replayed.damages))
    return [segment_id in affected for segment_id in segment_ids]
