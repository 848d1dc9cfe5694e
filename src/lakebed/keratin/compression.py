"""Compression of record batches with gzip, snappy, lz4 and zstd, as Kafka's clients use them.

    inflate(compress(data, Compression.ZSTD), Compression.ZSTD, bytes_max=64 << 20)

Decompression is bounded: data that would inflate to more than `bytes_max` is refused with
`TooLarge`, even if it claims to be smaller. No output buffer is larger than `bytes_max`; zstd also
allocates its window, at most 128 MiB of address space. Data that is incomplete, or has bytes after
its end that are not another whole frame, raises `Corrupt`. Partial output is never returned.

The codecs are those of cramjam, which the extra `lakebed[codecs]` installs. Without it, every
compression except `NONE` raises `CodecMissing`.

Snappy data may be raw or in the block framing of Kafka's Java client; it is written in that
framing. lz4 is written as independent blocks of 64 KiB, which all Kafka clients can read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from enum import IntEnum
from typing import TYPE_CHECKING

from lakebed.base.errors import Corrupt, TooLarge, Torn
from lakebed.base.layout import Buffer
from lakebed.base.units import KIB, MIB
from lakebed.keratin.errors import CodecMissing
from lakebed.kernels.format import (
    XERIAL_BLOCK,
    XERIAL_HEADER,
    XERIAL_MAGIC,
    XERIAL_VERSION,
    XerialBlock,
    XerialHeader,
)

if TYPE_CHECKING:
    from types import ModuleType

INFLATED_BYTES_MAX = 64 * MIB  # of one batch, unless the caller passes another limit
SNAPPY_BLOCK_BYTES = 32 * KIB  # the block size of Java's clients

GZIP_LEVEL = 6
LZ4_LEVEL = 1
ZSTD_LEVEL = 3

_FIRST_BUFFER_BYTES = 64 * KIB
_GROWTH = 4
_FULL = "failed to write whole buffer"  # the codecs' error if the output buffer is too small

InflateInto = Callable[[Buffer, bytearray], int]


class Compression(IntEnum):
    """The compression codes in the attributes of a record batch."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


def compress(data: Buffer, compression: Compression) -> bytes:
    """Compresses the records section of a record batch."""
    match compression:
        case Compression.NONE:
            return bytes(data)
        case Compression.GZIP:
            return bytes(_codecs().gzip.compress(data, level=GZIP_LEVEL))
        case Compression.SNAPPY:
            return _compress_snappy(memoryview(data))
        case Compression.LZ4:
            codec = _codecs().lz4.Compressor(
                level=LZ4_LEVEL, content_checksum=False, block_linked=False
            )
            codec.compress(data)
            return bytes(codec.finish())
        case Compression.ZSTD:
            return bytes(_codecs().zstd.compress(data, level=ZSTD_LEVEL))


def inflate(data: Buffer, compression: Compression, *, bytes_max: int) -> memoryview:
    """Decompresses `data`.

    Returns a view of newly allocated memory, or of `data` itself if `compression` is `NONE`. Raises
    `TooLarge` if the result would be longer than `bytes_max`, `Corrupt` if `data` is damaged, and
    `CodecMissing` if the codec is not installed.
    """
    match compression:
        case Compression.NONE:
            if len(data) > bytes_max:
                raise _too_large(len(data), bytes_max)
            return memoryview(data).toreadonly()
        case Compression.SNAPPY:
            return _inflate_snappy(memoryview(data), bytes_max)
        case Compression.GZIP:
            return _inflate_stream(data, _codecs().gzip.decompress_into, bytes_max)
        case Compression.LZ4:
            return _inflate_stream(data, _codecs().lz4.decompress_into, bytes_max)
        case Compression.ZSTD:
            return _inflate_stream(data, _codecs().zstd.decompress_into, bytes_max)


def require_codec(compression: Compression) -> None:
    """Raises `CodecMissing` if the codec for `compression` is not installed."""
    if compression is not Compression.NONE:
        _codecs()


def _inflate_stream(data: Buffer, inflate_into: InflateInto, bytes_max: int) -> memoryview:
    """Inflates into a growing buffer, because these formats do not reliably state the size."""
    buffer_bytes = min(max(_FIRST_BUFFER_BYTES, _GROWTH * len(data)), bytes_max)
    while True:
        buffer = bytearray(buffer_bytes)
        try:
            size = inflate_into(data, buffer)
        except _codecs().DecompressionError as error:
            if str(error) != _FULL:
                raise Corrupt(f"the compressed data is damaged ({error})") from None
        else:
            del buffer[size:]
            return memoryview(buffer).toreadonly()
        if buffer_bytes == bytes_max:
            raise _too_large(None, bytes_max)
        buffer_bytes = min(_GROWTH * buffer_bytes, bytes_max)


def _inflate_snappy(view: memoryview, bytes_max: int) -> memoryview:
    """Inflates raw or framed snappy data. Every block begins with its inflated size."""
    codec = _codecs().snappy
    blocks = [view]
    if view[: len(XERIAL_MAGIC)] == XERIAL_MAGIC:
        blocks = list(_xerial_blocks(view))
    try:
        sizes = [codec.decompress_raw_len(block) for block in blocks]
        if sum(sizes) > bytes_max:
            raise _too_large(sum(sizes), bytes_max)
        buffer = bytearray(sum(sizes))
        with memoryview(buffer) as target:
            end = 0
            for block, size in zip(blocks, sizes, strict=True):
                end += codec.decompress_raw_into(block, target[end : end + size])
    except _codecs().DecompressionError as error:
        raise Corrupt(f"the compressed data is damaged ({error})") from None
    return memoryview(buffer).toreadonly()


def _xerial_blocks(view: memoryview) -> Iterator[memoryview]:
    try:
        header = XERIAL_HEADER.unpack(view)
        if header.compatible_version > XERIAL_VERSION or header.version < XERIAL_VERSION:
            raise Corrupt("unsupported version of the snappy framing", found=header.version)
        position = XERIAL_HEADER.size
        while position < len(view):
            length = XERIAL_BLOCK.unpack(view, position).length
            position += XERIAL_BLOCK.size
            if length > len(view) - position:
                raise Torn("a snappy block is cut short", offset=position, expected=length)
            yield view[position : position + length]
            position += length
    except Torn as error:
        # The checksum of the batch is right, so this is not an unfinished write.
        raise Corrupt(f"the snappy data is damaged ({error})") from None


def _compress_snappy(view: memoryview) -> bytes:
    compress_raw = _codecs().snappy.compress_raw
    header = XerialHeader(XERIAL_MAGIC, XERIAL_VERSION, XERIAL_VERSION)
    parts = [XERIAL_HEADER.pack(header)]
    for start in range(0, len(view), SNAPPY_BLOCK_BYTES):
        block = bytes(compress_raw(view[start : start + SNAPPY_BLOCK_BYTES]))
        parts += [XERIAL_BLOCK.pack(XerialBlock(len(block))), block]
    return b"".join(parts)


def _too_large(size: int | None, limit: int) -> TooLarge:
    return TooLarge("the inflated size of a record batch, in bytes,", size=size, limit=limit)


def _codecs() -> ModuleType:
    # Imported on first use: most programs never read a compressed batch.
    try:
        import cramjam
    except ImportError as error:
        raise CodecMissing(
            f"compressed record batches need cramjam: install lakebed[codecs] ({error})"
        ) from error
    return cramjam
