"""The headers block of a record: its key, its producer and the user's headers.

    block    := empty | version u8 = 1, flags u8, [key], [producer], count u16, header{count}
    key      := length u32, bytes                                  flags bit 0
    producer := id u64, epoch u16, sequence u32                    flags bit 1
    header   := name length u16, name (UTF-8), value length u32 (all ones: null), value

An empty block has no key, no producer and no headers. All numbers are big-endian.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice
from typing import NamedTuple

from lakebed.base.errors import Corrupt, InputError, TooLarge, Torn, UnknownVersion
from lakebed.base.layout import Buffer
from lakebed.kernels.format import (
    KERATIN_BLOCK,
    KERATIN_BLOCK_VERSION,
    KERATIN_HAS_KEY,
    KERATIN_HAS_PRODUCER,
    KERATIN_HEADERS,
    KERATIN_KEY,
    KERATIN_NAME,
    KERATIN_NULL_LENGTH,
    KERATIN_PRODUCER,
    KERATIN_VALUE,
    PRODUCER_SEQUENCE_COUNT,
)
from lakebed.kernels.format import (
    BlockStart as BlockStart,
)
from lakebed.kernels.format import (
    HeaderCount as HeaderCount,
)
from lakebed.kernels.format import (
    KeyLength as KeyLength,
)
from lakebed.kernels.format import (
    NameLength as NameLength,
)
from lakebed.kernels.format import (
    Producer as Producer,
)
from lakebed.kernels.format import (
    ValueLength as ValueLength,
)

Header = tuple[str, bytes | None]


class HeadersBlock(NamedTuple):
    """The decoded contents of a headers block."""

    key: bytes | None = None
    producer: Producer | None = None
    headers: tuple[Header, ...] = ()


BLOCK_START = KERATIN_BLOCK
KEY_LENGTH = KERATIN_KEY
PRODUCER = KERATIN_PRODUCER
HEADER_COUNT = KERATIN_HEADERS
NAME_LENGTH = KERATIN_NAME
VALUE_LENGTH = KERATIN_VALUE

VERSION = KERATIN_BLOCK_VERSION
HAS_KEY = KERATIN_HAS_KEY
HAS_PRODUCER = KERATIN_HAS_PRODUCER
NULL_LENGTH = KERATIN_NULL_LENGTH
HEADERS_COUNT_MAX = 10_000  # of a message that a caller appends
STORED_HEADERS_COUNT_MAX = 0xFFFF  # that the format can store
SEQUENCE_COUNT = PRODUCER_SEQUENCE_COUNT  # sequences are below this, then start over at 0

_EMPTY = HeadersBlock()
_NO_HEADERS = HEADER_COUNT.pack(HeaderCount(0))


def encode_headers(
    key: Buffer | None,
    producer: Producer | None,
    headers: Sequence[Header] = (),
    *,
    count_max: int = HEADERS_COUNT_MAX,
) -> bytes:
    """Encodes a headers block. It is empty if there is no key, no producer and no header.

    Raises `TooLarge` if there are more than `count_max` headers or a name is too long, and
    `InputError` if a name cannot be encoded.
    """
    if key is None and producer is None and not headers:
        return b""
    flags = (HAS_KEY if key is not None else 0) | (HAS_PRODUCER if producer is not None else 0)
    parts: list[Buffer] = [BLOCK_START.pack(BlockStart(VERSION, flags))]
    if key is not None:
        parts += [KEY_LENGTH.pack(KeyLength(len(key))), key]
    if producer is not None:
        parts.append(PRODUCER.pack(producer))
    if not headers:
        return b"".join([*parts, _NO_HEADERS])
    if len(headers) > count_max:
        raise TooLarge("the number of headers", size=len(headers), limit=count_max)
    parts.append(HEADER_COUNT.pack(HeaderCount(len(headers))))
    for name, value in headers:
        parts += _encode_header(name, value)
    return b"".join(parts)


def encode_plain_blocks(
    keys: Iterable[bytes | None], producer: Producer | None, *, count: int
) -> list[bytes]:
    """Encodes the headers blocks of `count` consecutive messages that have no user headers.

    Each block is the same as from `encode_headers`. `producer` holds the sequence of the first
    message.
    """
    length_of = KEY_LENGTH.pack_values
    if producer is None:
        start = BLOCK_START.pack(BlockStart(VERSION, HAS_KEY))
        return [
            b"" if key is None else b"".join((start, length_of(len(key)), key, _NO_HEADERS))
            for key in islice(keys, count)
        ]
    keyless = BLOCK_START.pack(BlockStart(VERSION, HAS_PRODUCER))
    keyed = BLOCK_START.pack(BlockStart(VERSION, HAS_KEY | HAS_PRODUCER))
    pack, (producer_id, epoch, first_sequence) = PRODUCER.pack_values, producer
    producers = [
        pack(producer_id, epoch, (first_sequence + n) % SEQUENCE_COUNT) for n in range(count)
    ]
    return [
        b"".join(
            (keyless, encoded_producer, _NO_HEADERS)
            if key is None
            else (keyed, length_of(len(key)), key, encoded_producer, _NO_HEADERS)
        )
        for key, encoded_producer in zip(keys, producers, strict=False)
    ]


def _encode_header(name: str, value: bytes | None) -> list[Buffer]:
    try:
        encoded = name.encode()
    except UnicodeEncodeError:
        raise InputError(f"header name {name[:40]!r}: cannot be encoded as UTF-8") from None
    if len(encoded) > 0xFFFF:
        raise TooLarge("the length of a header name, in bytes,", size=len(encoded), limit=0xFFFF)
    if value is None:
        return [
            NAME_LENGTH.pack(NameLength(len(encoded))),
            encoded,
            VALUE_LENGTH.pack(ValueLength(NULL_LENGTH)),
        ]
    return [
        NAME_LENGTH.pack(NameLength(len(encoded))),
        encoded,
        VALUE_LENGTH.pack(ValueLength(len(value))),
        value,
    ]


def decode_headers(block: Buffer) -> HeadersBlock:
    """Decodes a headers block.

    A malformed block is always `Corrupt`, never `Torn`: the checksum of its record is right, so the
    record was written completely. Raises `UnknownVersion` if a newer release wrote the block.
    """
    if not block:
        return _EMPTY
    try:
        return _decode(block)
    except (Torn, UnicodeDecodeError) as error:
        raise Corrupt(f"the headers block is malformed ({error})") from None


def _decode(block: Buffer) -> HeadersBlock:
    start = BLOCK_START.unpack(block)
    if start.version > VERSION:
        raise UnknownVersion(
            "unsupported headers block version", expected=VERSION, found=start.version
        )
    position = BLOCK_START.size
    key = producer = None
    if start.flags & HAS_KEY:
        length = KEY_LENGTH.unpack(block, position).length
        key, position = _take(block, position + KEY_LENGTH.size, length)
    if start.flags & HAS_PRODUCER:
        producer = PRODUCER.unpack(block, position)
        position += PRODUCER.size
    count = HEADER_COUNT.unpack(block, position).header_count
    position += HEADER_COUNT.size
    headers: list[Header] = []
    for _ in range(count):
        length = NAME_LENGTH.unpack(block, position).length
        name, position = _take(block, position + NAME_LENGTH.size, length)
        length = VALUE_LENGTH.unpack(block, position).length
        position += VALUE_LENGTH.size
        value = None
        if length != NULL_LENGTH:
            value, position = _take(block, position, length)
        headers.append((name.decode(), value))
    if position != len(block):
        raise Torn("unexpected bytes after the last header", offset=position)
    return HeadersBlock(key, producer, tuple(headers))


def _take(block: Buffer, position: int, length: int) -> tuple[bytes, int]:
    end = position + length
    if end > len(block):
        raise Torn(
            "the headers block is cut short",
            offset=position,
            expected=length,
            found=len(block) - position,
        )
    return bytes(block[position:end]), end
