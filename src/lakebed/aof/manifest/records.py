"""The records of a manifest log: sixteen types with typed payloads, as values and as bytes.

A record of an unknown type is kept unchanged: replays skip it, and tools show it.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum
from typing import Any, NamedTuple

from lakebed.aof.manifest.format import (
    COMPRESSION_DONE,
    COMPRESSION_FAILED,
    COMPRESSION_STARTED,
    CUSTOM,
    EVICTED,
    HYDRATION_DONE,
    HYDRATION_FAILED,
    HYDRATION_STARTED,
    KEY,
    MANIFEST_ITSELF,
    MARKER,
    OPENED,
    RECORD_HEADER,
    SEAL,
    SHORT_SEAL,
    UPLOAD_DONE,
    UPLOAD_FAILED,
    CompressionDone,
    CompressionFailed,
    CompressionStarted,
    CustomFields,
    HydrationDone,
    HydrationFailed,
    HydrationStarted,
    KeyFields,
    LocalEvicted,
    RecordHeader,
    SealSegment,
    SegmentOpened,
    SnapshotMarker,
    UploadDoneFields,
    UploadFailedFields,
    record_bytes,
)
from lakebed.base.errors import Corrupt, TooLarge, Torn
from lakebed.base.layout import Buffer, Layout
from lakebed.kernels import crc64nvme

U16_MAX = (1 << 16) - 1


class RecordType(IntEnum):
    """The type of a manifest record, which is the kind of change that it records."""

    SEGMENT_OPENED = 0
    SEAL_SEGMENT = 1
    COMPRESSION_STARTED = 2
    COMPRESSION_DONE = 3
    COMPRESSION_FAILED = 4
    UPLOAD_STARTED = 5
    UPLOAD_DONE = 6
    UPLOAD_FAILED = 7
    TIER2_DELETE_QUEUED = 8
    TIER2_DELETED = 9
    HYDRATION_STARTED = 10
    HYDRATION_DONE = 11
    HYDRATION_FAILED = 12
    LOCAL_EVICTED = 13
    SNAPSHOT_MARKER = 14
    CUSTOM_EVENT = 15


class ReasonCode(IntEnum):
    """Why a compression, an upload or a hydration (restoring to Tier 0) failed."""

    TRANSIENT = 0  # retried automatically
    CODEC = 1  # the segment, or the warm file to upload, is damaged
    UNAUTHORISED = 2  # Tier 2 refused access, or the request: an operator must act
    UNAVAILABLE = 3  # the bucket or the network failed
    MISSING = 4  # the object does not exist; after a hydration, the segment needs repair


class UploadStarted(NamedTuple):
    """Payload of record type 5: the upload of a warm file or of a manifest chunk began."""

    key: str


class UploadDone(NamedTuple):
    """Payload of record type 6: the object of a segment or of a manifest chunk is in Tier 2."""

    key: str
    etag: str


class UploadFailed(NamedTuple):
    """Payload of record type 7: the upload failed; it may be retried with the same key."""

    key: str
    reason_code: int


class Tier2DeleteQueued(NamedTuple):
    """Payload of record type 8: the object must be deleted from Tier 2."""

    key: str


class Tier2Deleted(NamedTuple):
    """Payload of record type 9: the object was deleted from Tier 2."""

    key: str


class CustomEvent(NamedTuple):
    """Payload of record type 15: bytes that another application recorded."""

    schema_id: int
    blob: bytes


class Unknown(NamedTuple):
    """Payload of a record whose type this version does not know; kept as bytes."""

    record_type: int
    data: bytes


Fixed = (
    SegmentOpened
    | SealSegment
    | CompressionStarted
    | CompressionDone
    | CompressionFailed
    | HydrationStarted
    | HydrationDone
    | HydrationFailed
    | LocalEvicted
    | SnapshotMarker
)
Payload = (
    Fixed
    | UploadStarted
    | UploadDone
    | UploadFailed
    | Tier2DeleteQueued
    | Tier2Deleted
    | CustomEvent
    | Unknown
)

_FIXED: dict[int, Layout[Any]] = {
    RecordType.SEGMENT_OPENED: OPENED,
    RecordType.SEAL_SEGMENT: SEAL,
    RecordType.COMPRESSION_STARTED: COMPRESSION_STARTED,
    RecordType.COMPRESSION_DONE: COMPRESSION_DONE,
    RecordType.COMPRESSION_FAILED: COMPRESSION_FAILED,
    RecordType.HYDRATION_STARTED: HYDRATION_STARTED,
    RecordType.HYDRATION_DONE: HYDRATION_DONE,
    RecordType.HYDRATION_FAILED: HYDRATION_FAILED,
    RecordType.LOCAL_EVICTED: EVICTED,
    RecordType.SNAPSHOT_MARKER: MARKER,
}
_KEYED: dict[int, type[UploadStarted] | type[Tier2DeleteQueued] | type[Tier2Deleted]] = {
    RecordType.UPLOAD_STARTED: UploadStarted,
    RecordType.TIER2_DELETE_QUEUED: Tier2DeleteQueued,
    RecordType.TIER2_DELETED: Tier2Deleted,
}
_TYPES: dict[type, RecordType] = {
    **{layout.record: RecordType(number) for number, layout in _FIXED.items()},
    **{payload: RecordType(number) for number, payload in _KEYED.items()},
    UploadDone: RecordType.UPLOAD_DONE,
    UploadFailed: RecordType.UPLOAD_FAILED,
    CustomEvent: RecordType.CUSTOM_EVENT,
}


class Position(NamedTuple):
    """A position in a manifest log: a chunk and a byte offset in its file.

    Positions sort in log order.
    """

    chunk_index: int
    offset: int

    def __str__(self) -> str:
        return f"{self.chunk_index}:{self.offset}"


class ManifestRecord(NamedTuple):
    payload: Payload
    segment_id: int
    logical_offset: int
    timestamp_ms: int
    flags: int = 0

    @property
    def type_number(self) -> int:
        return type_of(self.payload)

    @property
    def type_name(self) -> str:
        """The name of the record's type, such as `UploadDone`."""
        if isinstance(self.payload, Unknown):
            return f"Unknown({self.payload.record_type})"
        return type(self.payload).__name__

    @property
    def is_about_manifest(self) -> bool:
        """Whether the record is about the manifest log itself, not about a segment."""
        return self.segment_id == MANIFEST_ITSELF


def type_of(payload: Payload) -> int:
    return payload.record_type if isinstance(payload, Unknown) else _TYPES[type(payload)]


def is_known_type(number: int) -> bool:
    return 0 <= number < len(RecordType)


def encode_record(record: ManifestRecord) -> bytes:
    """Returns the bytes of a record in a chunk: header, payload and padding."""
    payload = encode_payload(record.payload)
    header = RecordHeader(
        record_type=type_of(record.payload),
        flags=record.flags,
        payload_len=len(payload),
        segment_id=record.segment_id,
        logical_offset=record.logical_offset,
        timestamp_ms=record.timestamp_ms,
        payload_crc64=crc64nvme(payload),
    )
    return (RECORD_HEADER.pack(header) + payload).ljust(record_bytes(len(payload)), b"\0")


def encode_payload(payload: Payload) -> bytes:
    """Returns the payload's bytes; raises `TooLarge` if a string or blob in it is too long."""
    return _ENCODERS[type(payload)](payload)


def decode_record(header: RecordHeader, payload: Buffer) -> ManifestRecord:
    """Decodes a record from its header and the bytes of its payload.

    The caller must have verified the payload's checksum. Raises `Corrupt` if the payload has a
    wrong length for the record's type.
    """
    return ManifestRecord(
        decode_payload(header.record_type, payload),
        header.segment_id,
        header.logical_offset,
        header.timestamp_ms,
        header.flags,
    )


def decode_payload(record_type: int, data: Buffer) -> Payload:
    decode = _DECODERS.get(record_type)
    if decode is None:
        return Unknown(record_type, bytes(data))
    try:
        return decode(data)
    except (Torn, _Misfit):
        # The checksum matches, so this is a bug in the writer, not damage.
        name = RecordType(record_type).name
        size = f"{len(data)} bytes"
        raise Corrupt(
            "the payload of a manifest record has a wrong length for its type",
            expected=name,
            found=size,
        ) from None


class _Misfit(Exception):
    """A payload's length does not match its fields."""


def _fixed(layout: Layout[Any]) -> Callable[[Buffer], Payload]:
    size, values, make = layout.size, layout.values, layout.record._make

    def decode(data: Buffer) -> Payload:
        if len(data) != size:
            raise _Misfit
        payload: Payload = make(values(data, 0))
        return payload

    return decode


def _decode_seal(data: Buffer) -> Payload:
    if len(data) == SHORT_SEAL.size:
        return SealSegment(*SHORT_SEAL.unpack(data), 0, 0, 0)
    return _decode_long_seal(data)


_decode_long_seal = _fixed(SEAL)


def _keyed(payload: Callable[[str], Payload]) -> Callable[[Buffer], Payload]:
    def decode(data: Buffer) -> Payload:
        return payload(*_strings(data, KEY.size, *KEY.unpack(data)))

    return decode


def _decode_done(data: Buffer) -> Payload:
    return UploadDone(*_strings(data, UPLOAD_DONE.size, *UPLOAD_DONE.unpack(data)))


def _decode_failed(data: Buffer) -> Payload:
    key_len, reason_code = UPLOAD_FAILED.unpack(data)
    (key,) = _strings(data, UPLOAD_FAILED.size, key_len)
    return UploadFailed(key, reason_code)


def _decode_custom(data: Buffer) -> Payload:
    schema_id, blob_len = CUSTOM.unpack(data)
    if CUSTOM.size + blob_len != len(data):
        raise _Misfit
    return CustomEvent(schema_id, bytes(data[CUSTOM.size :]))


def _encode_keyed(payload: UploadStarted | Tier2DeleteQueued | Tier2Deleted) -> bytes:
    key = _encoded(payload.key)
    return KEY.pack(KeyFields(len(key))) + key


def _encode_done(payload: UploadDone) -> bytes:
    key, etag = _encoded(payload.key), _encoded(payload.etag)
    return UPLOAD_DONE.pack(UploadDoneFields(len(key), len(etag))) + key + etag


def _encode_failed(payload: UploadFailed) -> bytes:
    key = _encoded(payload.key)
    return UPLOAD_FAILED.pack(UploadFailedFields(len(key), payload.reason_code)) + key


def _encode_custom(payload: CustomEvent) -> bytes:
    _check_length(payload.blob)
    return CUSTOM.pack(CustomFields(payload.schema_id, len(payload.blob))) + payload.blob


def _encode_unknown(payload: Unknown) -> bytes:
    assert payload.data, "an empty payload is not allowed"
    return payload.data


def _strings(data: Buffer, start: int, *lengths: int) -> list[str]:
    """Returns the strings of these lengths that follow the fixed part of a payload.

    Raises `_Misfit` if they do not end exactly at the payload's end.
    """
    if start + sum(lengths) != len(data):
        raise _Misfit
    strings = []
    for length in lengths:
        strings.append(str(data[start : start + length], "utf-8", "surrogateescape"))
        start += length
    return strings


def _encoded(text: str) -> bytes:
    """Encodes a key or ETag as UTF-8; bytes that were decoded as surrogates stay unchanged."""
    data = text.encode("utf-8", "surrogateescape")
    _check_length(data)
    return data


def _check_length(data: bytes) -> None:
    if len(data) > U16_MAX:
        raise TooLarge(
            "the length in bytes of a string in a manifest record", size=len(data), limit=U16_MAX
        )


_ENCODERS: dict[type, Callable[[Any], bytes]] = {
    **{layout.record: layout.pack for layout in _FIXED.values()},
    **dict.fromkeys(_KEYED.values(), _encode_keyed),
    UploadDone: _encode_done,
    UploadFailed: _encode_failed,
    CustomEvent: _encode_custom,
    Unknown: _encode_unknown,
}
_DECODERS: dict[int, Callable[[Buffer], Payload]] = {
    **{number: _fixed(layout) for number, layout in _FIXED.items()},
    **{number: _keyed(payload) for number, payload in _KEYED.items()},
    RecordType.SEAL_SEGMENT: _decode_seal,
    RecordType.UPLOAD_DONE: _decode_done,
    RecordType.UPLOAD_FAILED: _decode_failed,
    RecordType.CUSTOM_EVENT: _decode_custom,
}
