"""Logs over the wire: appending, reading, tailing, sealing, their tiers, their raw segments.

Record ids are the packed 64-bit numbers; in a path or a query also `segment:offset`.
"""

from __future__ import annotations

from typing import Annotated, Final

from msgspec import Meta, Struct

from lakebed.aof.tiers.log_tiers import Residence
from lakebed.aof.view import LogDescription, SegmentInfo
from lakebed.api.operation import Nothing, Operation, Raw
from lakebed.api.topics import BODY_BYTES_MAX, Count, MaxBytes, WaitMs
from lakebed.base.units import MIB
from lakebed.store.summary import LogSummary

_TAG = "logs"

Unsigned = Annotated[int, Meta(ge=0)]  # of 64 bits, which is more than `Meta` can say
MaxRecords = Annotated[int, Meta(ge=1, le=100_000)]


class LogNames(Struct, frozen=True):
    logs: list[str]


class AppendRecords(Struct, frozen=True, forbid_unknown_fields=True):
    """`is_durable` False answers as soon as the records have their ids: see `flush_log`."""

    payloads: list[bytes]
    ext_ids: list[int] | None = None
    timestamps: list[int] | None = None  # ns since 1970; else now
    is_durable: bool = True
    timeout_ms: Count = 0  # to wait for what an append would wait for, and for room on the disk


class AppendQuery(Struct, frozen=True):
    """For bodies of lines (a record each, the newline removed), or of one record's bytes."""

    ext_id: Unsigned = 0
    timestamp: Unsigned | None = None
    is_durable: bool = True
    timeout_ms: Count = 0


class RecordIds(Struct, frozen=True):
    record_ids: list[int]


class Flush(Struct, frozen=True, forbid_unknown_fields=True):
    record_id: int | None = None  # else all that was appended
    timeout_ms: Count | None = None


class ReadQuery(Struct, frozen=True):
    """From `start` (else the oldest) up to `end`, or backwards from before `start`."""

    start: str | None = None
    end: str | None = None
    max_records: MaxRecords = 1000
    max_bytes: MaxBytes = 1 * MIB
    wait_ms: WaitMs = 0
    backward: bool = False


class Records(Struct, frozen=True):
    record_ids: list[int]
    timestamps: list[int]
    ext_ids: list[int]
    payloads: list[bytes]
    next: int  # from where to read on
    durable_end: int


class TailQuery(Struct, frozen=True):
    start: str | None = None  # else the durable end


class SeekQuery(Struct, frozen=True):
    timestamp_ns: Unsigned


class Position(Struct, frozen=True):
    record_id: int


class Seal(Struct, frozen=True, forbid_unknown_fields=True):
    timeout_ms: Count | None = None


class SealedSegment(Struct, frozen=True):
    segment: SegmentInfo | None  # None if there was nothing to seal


class LogSegments(Struct, frozen=True):
    segments: list[SegmentInfo]
    durable_end: int


class WatermarkBody(Struct, frozen=True, forbid_unknown_fields=True):
    watermark: Unsigned


class TierPlaces(Struct, frozen=True):
    segments: list[Residence]


class Tier2Place(Struct, frozen=True):
    address: str  # a URL, or a folder of the store


class RangeQuery(Struct, frozen=True):
    """Of the file as it is stored: hot, warm or cold."""

    offset: Count = 0
    length: Annotated[int, Meta(ge=1)] | None = None
    tier: int | None = None  # `NotFound` if it is elsewhere by now


_LOG = "/v1/logs/{log}"

LIST_LOGS: Final = Operation(
    "list_logs", "GET", "/v1/logs", "The names of all logs",
    LogNames, tag=_TAG, target="Store.logs", is_repeatable=True,
)  # fmt: skip
OPEN_LOG: Final = Operation(
    "open_log",
    "PUT",
    _LOG,
    "The log, created if need be",
    LogDescription,
    tag=_TAG,
    is_repeatable=True,
)
DESCRIBE_LOG: Final = Operation(
    "describe_log", "GET", _LOG, "How it stands",
    LogDescription, tag=_TAG, target="Log.describe", is_repeatable=True,
)  # fmt: skip
APPEND_RECORDS: Final = Operation(
    "append_records", "POST", _LOG + "/records", "Append records; not safe to repeat",
    RecordIds, query=AppendQuery, body=AppendRecords, also_takes=(Raw.LINES, Raw.BYTES),
    body_bytes_max=BODY_BYTES_MAX, tag=_TAG, errors=(504,),
)  # fmt: skip
FLUSH_LOG: Final = Operation(
    "flush_log", "POST", _LOG + "/flush", "Wait until what was appended is durable",
    Nothing, body=Flush, status=204, tag=_TAG, errors=(504,), is_repeatable=True,
)  # fmt: skip
READ_RECORDS: Final = Operation(
    "read_records", "GET", _LOG + "/records", "Durable records",
    Records, query=ReadQuery, also_gives=(Raw.LINES,), tag=_TAG, is_repeatable=True,
)  # fmt: skip
TAIL_LOG: Final = Operation(
    "tail_log", "GET", _LOG + "/tail", "Records as they become durable, a line each, without end",
    bytes, query=TailQuery, also_gives=(Raw.LINES,), tag=_TAG, is_repeatable=True,
)  # fmt: skip
SEEK_LOG: Final = Operation(
    "seek_log", "GET", _LOG + "/position", "Where the first record is that is not older",
    Position, query=SeekQuery, tag=_TAG, target="Log.seek_timestamp", is_repeatable=True,
)  # fmt: skip
SEAL_LOG: Final = Operation(
    "seal_log", "POST", _LOG + "/seal", "Seal the segment that is written",
    SealedSegment, body=Seal, tag=_TAG,
)  # fmt: skip
SET_WATERMARK: Final = Operation(
    "set_watermark", "PUT", _LOG + "/coordinator-watermark", "It never goes back",
    LogDescription, body=WatermarkBody, tag=_TAG, is_repeatable=True,
)  # fmt: skip
LOG_SEGMENTS: Final = Operation(
    "log_segments", "GET", _LOG + "/segments", "Its segments with their tiers, and the durable end",
    LogSegments, tag=_TAG, is_repeatable=True,
)  # fmt: skip
LOG_SEGMENT_BYTES: Final = Operation(
    "log_segment_bytes", "GET", _LOG + "/segments/{segment}/bytes",
    "A range of a segment as it is stored; Lakebed-Tier says where",
    bytes, query=RangeQuery, also_gives=(Raw.BYTES,), tag=_TAG, is_repeatable=True,
)  # fmt: skip
LOG_TIERS: Final = Operation(
    "log_tiers", "GET", _LOG + "/tiers", "Where its segments are",
    TierPlaces, tag=_TAG, target="Tiers.residency", is_repeatable=True,
)  # fmt: skip

LOG_SUMMARY: Final = Operation(
    "log_summary", "GET", _LOG + "/summary", "What its files report, archived segments included",
    LogSummary, tag=_TAG, target="Store.log_summary", is_repeatable=True,
)  # fmt: skip
LOG_TIER2: Final = Operation(
    "log_tier2", "GET", _LOG + "/tier2", "Where its Tier 2 is",
    Tier2Place, tag=_TAG, target="Store.tier2_of", is_repeatable=True,
)  # fmt: skip

OPERATIONS: Final[tuple[Operation[object], ...]] = (
    LIST_LOGS, OPEN_LOG, DESCRIBE_LOG, APPEND_RECORDS, FLUSH_LOG, READ_RECORDS, TAIL_LOG, SEEK_LOG,
    SEAL_LOG, SET_WATERMARK, LOG_SEGMENTS, LOG_SEGMENT_BYTES, LOG_TIERS,
    LOG_SUMMARY, LOG_TIER2,
)  # fmt: skip
