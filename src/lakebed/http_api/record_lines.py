"""Records as lines: each line is a payload in requests, and a JSON document in responses."""

from __future__ import annotations

import msgspec
from msgspec import UNSET, Struct, UnsetType

from lakebed.aof.record_id import RecordId
from lakebed.api.logs import Records
from lakebed.base.errors import InputError

_encode = msgspec.json.Encoder().encode_lines


class RecordLine(Struct, frozen=True):
    """A record as a JSON line. A payload that is not UTF-8 text is encoded as base64."""

    record_id: str
    timestamp: int
    ext_id: int
    payload: str | UnsetType = UNSET
    payload_base64: bytes | UnsetType = UNSET


def payloads_of(data: bytes) -> list[bytes]:
    """Splits a body into lines, and returns them without their newlines.

    The last line needs no newline. Raises `InputError` if a line is empty.
    """
    lines = data.split(b"\n")
    if not lines[-1]:
        lines.pop()
    for index, line in enumerate(lines):
        if not line:
            raise InputError(f"line {index + 1} is empty: a record must have at least one byte")
    return lines


def lines_of(records: Records) -> bytes:
    columns = (records.record_ids, records.timestamps, records.ext_ids, records.payloads)
    return _encode([_line(*record) for record in zip(*columns, strict=True)])


def _line(record_id: int, timestamp: int, ext_id: int, payload: bytes) -> RecordLine:
    id_text = str(RecordId(record_id))
    try:
        text = str(payload, "utf-8")
    except UnicodeDecodeError:
        return RecordLine(id_text, timestamp, ext_id, payload_base64=payload)
    return RecordLine(id_text, timestamp, ext_id, payload=text)
