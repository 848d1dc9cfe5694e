"""Records of a record batch, written by hand and wrong where a test wants them so."""

from __future__ import annotations


def number(value: int) -> bytes:
    """A varint, by the book."""
    word = (value << 1) ^ (value >> 63)
    found = b""
    while word >= 0x80:
        found += bytes([word % 0x80 + 0x80])
        word //= 0x80
    return found + bytes([word])


def record(
    *,
    length: int | None = None,
    attributes: int = 0,
    timestamp_delta: int = 0,
    offset_delta: int = 0,
    key_length: int = -1,
    key: bytes = b"",
    value_length: int | None = None,
    value: bytes = b"",
    header_count: int = 0,
    headers: bytes = b"",
) -> bytes:
    """One record; lengths that are given stand there whatever the truth is."""
    body = bytes([attributes]) + number(timestamp_delta) + number(offset_delta)
    body += number(key_length) + key
    body += number(len(value) if value_length is None else value_length) + value
    body += number(header_count) + headers
    return number(len(body) if length is None else length) + body


def records_of(values: list[bytes]) -> bytes:
    return b"".join(record(offset_delta=index, value=value) for index, value in enumerate(values))
