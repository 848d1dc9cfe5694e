"""Describes the records, flags and numbers of a manifest log in words."""

from __future__ import annotations

from collections.abc import Callable
from enum import IntFlag
from typing import Any

from lakebed.aof.manifest.format import (
    MANIFEST_ITSELF,
    CompressionDone,
    CompressionFailed,
    CompressionStarted,
    HydrationDone,
    HydrationFailed,
    HydrationStarted,
    LocalEvicted,
    SealSegment,
    SegmentOpened,
    SnapshotMarker,
)
from lakebed.aof.manifest.records import (
    CustomEvent,
    ManifestRecord,
    Payload,
    Position,
    ReasonCode,
    RecordType,
    Tier2Deleted,
    Tier2DeleteQueued,
    Unknown,
    UploadDone,
    UploadFailed,
    UploadStarted,
)
from lakebed.base.errors import InputError
from lakebed.base.units import shown
from lakebed.cli.report import Column
from lakebed.cli.values import moment_ms_text, size_text

_TIME_MS_MAX = 253_402_300_799_999  # the last moment of the year 9999
_HEX_BYTES_MAX = 32

_REASONS = {
    ReasonCode.TRANSIENT: "a passing error, it is tried again",
    ReasonCode.CODEC: "the segment is damaged",
    ReasonCode.UNAUTHORISED: "not authorised: fix the credentials",
    ReasonCode.UNAVAILABLE: "bucket or network not available",
    ReasonCode.MISSING: "the object is not there, it must be repaired",
}


def record_words(record: ManifestRecord) -> str:
    """Describes a record in words."""
    words = payload_words(record.payload)
    return f"{words} (flags {record.flags:#06x})" if record.flags else words


def payload_words(payload: Payload) -> str:
    match payload:
        case SegmentOpened():
            return f"opened: base offset {payload.base_offset}, writer epoch {payload.epoch}"
        case SealSegment():
            return _seal_words(payload)
        case CompressionStarted():
            return f"compression started: job {payload.job_id}"
        case CompressionDone():
            how = (
                f"dictionary {payload.dictionary_id}" if payload.dictionary_id else "no dictionary"
            )
            return f"compressed: {size_text(payload.compressed_bytes)}, {how}"
        case CompressionFailed():
            return f"compression failed: {reason_text(payload.reason_code)}"
        case UploadStarted():
            return f"upload started: {payload.key}"
        case UploadDone():
            return f"uploaded: {payload.key}, etag {payload.etag}"
        case UploadFailed():
            return f"upload failed: {reason_text(payload.reason_code)}: {payload.key}"
        case Tier2DeleteQueued():
            return f"delete of the object queued: {payload.key}"
        case Tier2Deleted():
            return f"object deleted: {payload.key}"
        case HydrationStarted():
            return f"hydration started: from tier {payload.source_tier}"
        case HydrationDone():
            return f"in tier 0 again: {size_text(payload.resident_bytes)}"
        case HydrationFailed():
            return f"hydration failed: {reason_text(payload.reason_code)}"
        case LocalEvicted():
            return f"evicted: {size_text(payload.reclaimed_bytes)} reclaimed"
        case SnapshotMarker():
            place = Position(payload.chunk_index, payload.chunk_offset)
            return f"snapshot {payload.snapshot_id} holds everything before {place}"
        case CustomEvent():
            return f"custom event of schema {payload.schema_id}: {_hex_text(payload.blob)}"
        case Unknown():
            return f"type {payload.record_type} is not known: {_hex_text(payload.data)}"


def payload_members(payload: Payload) -> dict[str, object]:
    """Returns the fields of a payload for JSON. Checksums and bytes become hex digits."""
    fields: dict[str, object] = {}
    for name, value in payload._asdict().items():
        if isinstance(value, bytes):
            value = value.hex()
        elif name == "segment_crc64":
            value = crc_text(value)
        fields[name] = value
    if isinstance(payload, CompressionFailed | UploadFailed | HydrationFailed):
        fields["reason"] = reason_text(payload.reason_code)
    return fields


def parse_type(text: str) -> int:
    """Returns the number of a record type, given its name or its number.

    Case, hyphens and underscores in the name are ignored.
    """
    wanted = text.replace("-", "").replace("_", "").lower()
    for kind in RecordType:
        if wanted == kind.name.replace("_", "").lower():
            return kind
    if text.isascii() and text.isdigit() and len(text) <= 5 and int(text) < 1 << 16:
        return int(text)
    names = ", ".join(kind.name.title().replace("_", "") for kind in RecordType)
    raise InputError(f"{shown(text)} is not a record type: give a number, or one of {names}")


def reason_text(code: int) -> str:
    return _REASONS[ReasonCode(code)] if code in _REASONS else f"reason {code} is not known"


def flag_names(value: int, kind: type[IntFlag]) -> list[str]:
    """Returns the names of the flags that are set. Unknown flags become one hexadecimal number."""
    names = [flag.name.replace("_", " ").lower() for flag in kind if flag.name and value & flag]
    rest = value & ~sum(flag.value for flag in kind)
    return [*names, hex(rest)] if rest else names


def time_text(time_ms: int) -> str:
    """Formats a time (ms since 1970) as ISO 8601; `-` if it is 0.

    A time after the year 9999, which damage can cause, is formatted as a number of ms.
    """
    if not time_ms:
        return "-"
    return moment_ms_text(time_ms) if time_ms <= _TIME_MS_MAX else f"{time_ms} ms"


def segment_text(segment_id: int) -> str:
    return "manifest" if segment_id == MANIFEST_ITSELF else str(segment_id)


def crc_text(crc64: int) -> str:
    return f"{crc64:016x}"


def moment_columns(key: str, source: Callable[[Any], int]) -> tuple[Column, Column]:
    """Returns two columns of JSON for a time: `key` as ISO 8601, and `key_ms` in ms since 1970.

    Both are null if the time is 0, which means that there is none. A time after the year 9999 has
    only the number.
    """

    def text(row: object) -> str | None:
        time_ms = source(row)
        return time_text(time_ms) if 0 < time_ms <= _TIME_MS_MAX else None

    return Column(key, text), Column(f"{key}_ms", lambda row: source(row) or None)


def _seal_words(payload: SealSegment) -> str:
    words = (
        f"sealed: {size_text(payload.durable_bytes)}, crc {crc_text(payload.segment_crc64)}, "
        f"ext id {payload.ext_id}, watermark {payload.coordinator_watermark}"
    )
    return f"{words}, a flush had failed" if payload.flush_failure else words


def _hex_text(data: bytes) -> str:
    shown_bytes = data[:_HEX_BYTES_MAX].hex()
    return f"{len(data)} bytes, {shown_bytes}{'…' if len(data) > _HEX_BYTES_MAX else ''}"
