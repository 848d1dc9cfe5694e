"""The calls for logs: appending, reading, tailing, sealing, their tiers and raw segments.

Record ids are packed 64-bit numbers; in a query they may also be `segment:offset`.
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

Unsigned = Annotated[int, Meta(ge=0)]  # 64 bits; `Meta` cannot express a maximum that large
MaxRecords = Annotated[int, Meta(ge=1, le=100_000)]


class LogNames(Struct, frozen=True):
    logs: list[str]


class AppendRecords(Struct, frozen=True, forbid_unknown_fields=True):
    """Records to append.

    The response is sent when the records are durable. With `is_durable` false it is sent earlier;
    `flush_log` then waits until they are durable.
    """

    payloads: list[bytes]
    ext_ids: list[int] | None = None
    timestamps: list[int] | None = None  # ns since 1970; by default now
    is_durable: bool = True
    timeout_ms: Count = 0  # limit of waits for space: in the queue (0: no wait), on disk (0: 10 s)


class AppendQuery(Struct, frozen=True):
    """Options for a request body of lines (one record per line, without its newline) or of one
    record."""

    ext_id: Unsigned = 0
    timestamp: Unsigned | None = None
    is_durable: bool = True
    timeout_ms: Count = 0


class RecordIds(Struct, frozen=True):
    record_ids: list[int]


class Flush(Struct, frozen=True, forbid_unknown_fields=True):
    record_id: int | None = None  # by default all records appended so far
    timeout_ms: Count | None = None  # by default, and at most, 60,000


class ReadQuery(Struct, frozen=True):
    """Selects the records from `start` (by default the oldest) up to, but not including, `end`.

    With `backward`, selects the records before `start` (by default all), newest first; `end` must
    then be left out.
    """

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
    next: int  # where the next read continues
    durable_end: int


class TailQuery(Struct, frozen=True):
    start: str | None = None  # by default the durable end


class SeekQuery(Struct, frozen=True):
    timestamp_ns: Unsigned


class Position(Struct, frozen=True):
    record_id: int


class Seal(Struct, frozen=True, forbid_unknown_fields=True):
    timeout_ms: Count | None = None  # by default, and at most, 60,000


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
    """A byte range of a segment: of its file in Tier 0 or 1, or of its object in Tier 2."""

    offset: Count = 0
    length: Annotated[int, Meta(ge=1)] | None = None
    tier: int | None = None  # if given, `NotFound` unless the segment is in this tier


_LOG = "/v1/logs/{log}"

LIST_LOGS: Final = Operation(
    "list_logs", "GET", "/v1/logs", "List the names of all logs",
    LogNames, tag=_TAG, target="Store.logs", is_repeatable=True,
)  # fmt: skip
OPEN_LOG: Final = Operation(
    "open_log",
    "PUT",
    _LOG,
    "Open a log, creating it if needed",
    LogDescription,
    tag=_TAG,
    is_repeatable=True,
)
DESCRIBE_LOG: Final = Operation(
    "describe_log", "GET", _LOG, "Describe the state of a log",
    LogDescription, tag=_TAG, target="Log.describe", is_repeatable=True,
)  # fmt: skip
APPEND_RECORDS: Final = Operation(
    "append_records", "POST", _LOG + "/records", "Append records; not safe to repeat",
    RecordIds, query=AppendQuery, body=AppendRecords, also_takes=(Raw.LINES, Raw.BYTES),
    body_bytes_max=BODY_BYTES_MAX, tag=_TAG, errors=(504,),
)  # fmt: skip
FLUSH_LOG: Final = Operation(
    "flush_log", "POST", _LOG + "/flush", "Wait until appended records are durable",
    Nothing, body=Flush, status=204, tag=_TAG, errors=(504,), is_repeatable=True,
)  # fmt: skip
READ_RECORDS: Final = Operation(
    "read_records", "GET", _LOG + "/records", "Read durable records",
    Records, query=ReadQuery, also_gives=(Raw.LINES,), tag=_TAG, is_repeatable=True,
)  # fmt: skip
TAIL_LOG: Final = Operation(
    "tail_log", "GET", _LOG + "/tail", "Stream records as they become durable, one per line",
    bytes, query=TailQuery, also_gives=(Raw.LINES,), tag=_TAG, is_repeatable=True,
)  # fmt: skip
SEEK_LOG: Final = Operation(
    "seek_log", "GET", _LOG + "/position", "Find the first record at or after a time",
    Position, query=SeekQuery, tag=_TAG, target="Log.seek_timestamp", is_repeatable=True,
)  # fmt: skip
SEAL_LOG: Final = Operation(
    "seal_log", "POST", _LOG + "/seal", "Seal the active segment",
    SealedSegment, body=Seal, tag=_TAG,
)  # fmt: skip
SET_WATERMARK: Final = Operation(
    "set_watermark", "PUT", _LOG + "/coordinator-watermark",
    "Raise the coordinator watermark; a lower one is ignored",
    LogDescription, body=WatermarkBody, tag=_TAG, is_repeatable=True,
)  # fmt: skip
LOG_SEGMENTS: Final = Operation(
    "log_segments", "GET", _LOG + "/segments",
    "List the segments with their tiers, and the durable end",
    LogSegments, tag=_TAG, is_repeatable=True,
)  # fmt: skip
LOG_SEGMENT_BYTES: Final = Operation(
    "log_segment_bytes", "GET", _LOG + "/segments/{segment}/bytes",
    "Read a range of a segment as stored; Lakebed-Tier names its tier",
    bytes, query=RangeQuery, also_gives=(Raw.BYTES,), tag=_TAG, is_repeatable=True,
)  # fmt: skip
LOG_TIERS: Final = Operation(
    "log_tiers", "GET", _LOG + "/tiers", "List the tiers of the segments",
    TierPlaces, tag=_TAG, target="Tiers.residency", is_repeatable=True,
)  # fmt: skip

LOG_SUMMARY: Final = Operation(
    "log_summary", "GET", _LOG + "/summary",
    "Summarise a log from its files, archived segments included",
    LogSummary, tag=_TAG, target="Store.log_summary", is_repeatable=True,
)  # fmt: skip
LOG_TIER2: Final = Operation(
    "log_tier2", "GET", _LOG + "/tier2", "Return the address of the Tier 2 of a log",
    Tier2Place, tag=_TAG, target="Store.tier2_of", is_repeatable=True,
)  # fmt: skip

OPERATIONS: Final[tuple[Operation[object], ...]] = (
    LIST_LOGS, OPEN_LOG, DESCRIBE_LOG, APPEND_RECORDS, FLUSH_LOG, READ_RECORDS, TAIL_LOG, SEEK_LOG,
    SEAL_LOG, SET_WATERMARK, LOG_SEGMENTS, LOG_SEGMENT_BYTES, LOG_TIERS,
    LOG_SUMMARY, LOG_TIER2,
)  # fmt: skip
