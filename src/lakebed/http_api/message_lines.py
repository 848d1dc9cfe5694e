"""Messages as JSON lines, one object per message.

    {"key": "text", "value": "text", "headers": {"name": "text"}, "timestamp_ms": 1}

A text value is stored as its UTF-8 bytes, null deletes the key, and any other JSON is stored as its
compact text. `key_base64`, `value_base64` and `headers_base64` are for binary data. Headers are an
object, or a list of pairs if a name is repeated. Responses use the same form, with further fields
such as `partition` and `offset`; stored JSON is returned as text, because the log does not
distinguish it from text.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator, Sequence
from typing import Final

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from lakebed.base.errors import InputError, TooLarge
from lakebed.keratin.headers import Header
from lakebed.keratin.message import Message
from lakebed.store.leased_message import LeasedMessage

Texts = dict[str, str | None] | list[tuple[str, str | None]]
Datas = dict[str, bytes] | list[tuple[str, bytes]]

_TEXT_QUOTE: Final = 0x22
_encode = msgspec.json.Encoder().encode


class _Line(Struct, forbid_unknown_fields=True):
    key: str | None = None
    key_base64: bytes | None = None
    value: Raw | UnsetType = UNSET
    value_base64: bytes | None = None
    headers: Texts = {}
    headers_base64: Datas = {}
    timestamp_ms: int | None = None


_decode = msgspec.json.Decoder(_Line).decode
_decode_text = msgspec.json.Decoder(str).decode


class MessageColumns(Struct):
    """Messages as columns: each list has one item per message."""

    keys: list[bytes | None]
    values: list[bytes | None]
    headers: list[list[Header]]
    timestamps_ms: list[int | None]


def read_lines(data: bytes, *, count_max: int, message_bytes_max: int) -> MessageColumns:
    """Parses messages from JSON lines.

    Raises `InputError` with the number of the first line that is not valid, or if there is no line,
    and `TooLarge` if there are too many messages or one is too large.
    """
    columns = MessageColumns([], [], [], [])
    for number, line in enumerate(_split(data), start=1):
        if number > count_max:
            raise TooLarge("the number of messages so far", size=number, limit=count_max)
        try:
            _add(columns, _decode(line))
        except (InputError, msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            reason = "the line is empty" if not line.strip() else str(error)
            raise InputError(f"line {number}: {reason}") from None
        size = len(columns.keys[-1] or b"") + len(columns.values[-1] or b"")
        if size > message_bytes_max:
            what = f"line {number}: the size of the message in bytes"
            raise TooLarge(what, size=size, limit=message_bytes_max)
    if not columns.values:
        raise InputError("the body is empty; it must have one message per line")
    return columns


def _split(data: bytes) -> list[bytes]:
    lines = data.split(b"\n")
    if not lines[-1]:
        lines.pop()
    return lines


def _add(columns: MessageColumns, line: _Line) -> None:
    key, value = _key(line), _value(line)
    if key is None and value is None:
        raise InputError("a null value deletes a key, but the message has no key")
    columns.keys.append(key)
    columns.values.append(value)
    columns.headers.append(list(_headers(line)))
    columns.timestamps_ms.append(line.timestamp_ms)


def _key(line: _Line) -> bytes | None:
    if line.key is not None and line.key_base64 is not None:
        raise InputError("the fields `key` and `key_base64` cannot be combined: give one of them")
    return line.key_base64 if line.key is None else line.key.encode()


def _value(line: _Line) -> bytes | None:
    if (line.value is UNSET) == (line.value_base64 is None):
        raise InputError("exactly one of the fields `value` and `value_base64` is required")
    if isinstance(line.value, UnsetType):
        return line.value_base64
    raw = bytes(line.value)
    if raw[0] == _TEXT_QUOTE:
        return _decode_text(raw).encode()
    if raw == b"null":
        return None
    raw.decode()  # it must be UTF-8
    return msgspec.json.format(raw, indent=-1)


def _headers(line: _Line) -> Iterator[Header]:
    texts, datas = line.headers, line.headers_base64
    for name, text in texts.items() if isinstance(texts, dict) else texts:
        yield name, None if text is None else text.encode()
    yield from datas.items() if isinstance(datas, dict) else datas


def line_of(partition: int, message: Message) -> bytes:
    return _encode(_document(partition, message)) + b"\n"


def lease_line_of(leased: LeasedMessage) -> bytes:
    """Returns the JSON line of a leased message, with the fields that an acknowledgement needs."""
    document = _document(leased.partition, leased) | {
        "epoch": leased.epoch,
        "incarnation": leased.incarnation,
        "deadline_ms": leased.deadline_ms,
        "delivery_count": leased.delivery_count,
    }
    return _encode(document) + b"\n"


def _document(partition: int, message: Message | LeasedMessage) -> dict[str, object]:
    document: dict[str, object] = {
        "partition": partition,
        "offset": message.offset,
        "timestamp_ms": message.timestamp_ms,
    }
    _put(document, "key", message.key)
    _put(document, "value", message.value)
    if message.headers:
        _put_headers(document, message.headers)
    return document


def _put(document: dict[str, object], name: str, data: bytes | None) -> None:
    text = _text(data)
    if data is None or text is not None:
        document[name] = text
    else:
        document[f"{name}_base64"] = _base64(data)


def _put_headers(document: dict[str, object], headers: Sequence[Header]) -> None:
    texts = [(name, _text(value)) for name, value in headers if _is_text(value)]
    datas = [(name, _base64(value or b"")) for name, value in headers if not _is_text(value)]
    for field, pairs in (("headers", texts), ("headers_base64", datas)):
        headers_value: object = dict(pairs)
        if len(dict(pairs)) < len(pairs):
            headers_value = pairs
        if pairs:
            document[field] = headers_value


def _is_text(data: bytes | None) -> bool:
    return data is None or _text(data) is not None


def _text(data: bytes | None) -> str | None:
    """Decodes UTF-8 text. Returns None if the data is None or not UTF-8."""
    try:
        return None if data is None else data.decode()
    except UnicodeDecodeError:
        return None


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")
