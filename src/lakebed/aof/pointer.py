"""Encodes and decodes the files `current.sealed` and `durable_end`.

Each file is one record that ends in a CRC over all bytes before it. Decoding raises `Torn` if the
file is too short or holds only zeros, `UnknownVersion` if another version wrote it, and `Corrupt`
if it is damaged. The version field is trusted only if the checksum matches or the file is longer
than in this version, so that one flipped bit does not look like a newer version.
"""

from __future__ import annotations

from typing import TypeVar

from lakebed.aof.format import (
    DURABLE_END,
    DURABLE_END_MAGIC,
    DURABLE_END_VERSION,
    POINTER_MAGIC,
    POINTER_VERSION,
    SEALED_POINTER,
    DurableEnd,
    SealedPointer,
)
from lakebed.base.errors import Corrupt, Torn, UnknownVersion
from lakebed.base.files import PathLike
from lakebed.base.layout import Buffer, Layout
from lakebed.kernels import crc64nvme

Summed = TypeVar("Summed", SealedPointer, DurableEnd)

FILE_BYTES_MAX = 4096
"""The maximum size in bytes of either file; a longer one counts as damaged. It exceeds both sizes,
because a file of a newer version may be longer and must not look damaged."""

_DURABLE_END_SUMMED = DURABLE_END.offset_of("crc64")


def encode_pointer(*, segment_id: int, durable_bytes: int, coordinator_watermark: int) -> bytes:
    pointer = SealedPointer(
        magic=POINTER_MAGIC,
        version=POINTER_VERSION,
        reserved=0,
        segment_id=segment_id,
        durable_bytes=durable_bytes,
        coordinator_watermark=coordinator_watermark,
        crc64=0,
    )
    return SEALED_POINTER.pack(pointer._replace(crc64=_crc64(SEALED_POINTER, pointer)))


def decode_pointer(data: Buffer, *, path: PathLike | None = None) -> SealedPointer:
    return _decode(SEALED_POINTER, data, POINTER_MAGIC, POINTER_VERSION, path)


def encode_durable_end(
    *,
    boot_id: bytes,
    writer_epoch: int,
    segment_id: int,
    offset: int,
    coordinator_watermark: int,
) -> bytes:
    fields = (
        DURABLE_END_MAGIC,
        DURABLE_END_VERSION,
        0,
        boot_id,
        writer_epoch,
        segment_id,
        offset,
        coordinator_watermark,
    )
    # This runs once per flush: building the tuple twice is faster than `_replace`.
    summed = DURABLE_END.pack(DurableEnd(*fields, 0))[:_DURABLE_END_SUMMED]
    return DURABLE_END.pack(DurableEnd(*fields, crc64nvme(summed)))


def decode_durable_end(data: Buffer, *, path: PathLike | None = None) -> DurableEnd:
    return _decode(DURABLE_END, data, DURABLE_END_MAGIC, DURABLE_END_VERSION, path)


def _crc64(layout: Layout[Summed], value: Summed) -> int:
    return crc64nvme(layout.pack(value)[: layout.offset_of("crc64")])


def _decode(
    layout: Layout[Summed], data: Buffer, magic: int, version: int, path: PathLike | None
) -> Summed:
    """Checks and decodes the bytes of either file; raises a `DataError` if a check fails."""
    size = f"{layout.size} bytes"
    if len(data) < layout.size:
        raise Torn("the file is too short", path=path, expected=size, found=len(data))
    if not any(data):
        # The file was created, but a power loss came before its first bytes were durable.
        raise Torn("the file holds only zeros", path=path, offset=0)
    value = layout.unpack(data)
    if value.magic != magic:
        raise Corrupt(
            "the file begins with a wrong magic number",
            path=path,
            expected=hex(magic),
            found=hex(value.magic),
        )
    summed = crc64nvme(bytes(data[: layout.offset_of("crc64")]))
    is_longer = len(data) > layout.size
    if value.version > version and (is_longer or summed == value.crc64):
        raise UnknownVersion(
            "the file was written by a newer version of Lakebed: use that version or a newer one",
            path=path,
            expected=version,
            found=value.version,
        )
    if is_longer:
        raise Corrupt("the file is too long", path=path, expected=size, found=len(data))
    if summed != value.crc64:
        raise Corrupt(
            "the file's checksum is wrong", path=path, expected=hex(summed), found=hex(value.crc64)
        )
    if value.version != version:
        raise UnknownVersion(
            "the file has an old version of the format, which this version of Lakebed cannot read",
            path=path,
            expected=version,
            found=value.version,
        )
    return value
