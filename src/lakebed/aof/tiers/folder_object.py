"""The trailer of an object stored in a folder: its size, its checksum and its metadata.

The trailer follows the object's bytes in the same file, so that the object and its metadata appear,
and are replaced, together.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import NamedTuple

from lakebed.aof.tiers.format import (
    OBJECT_TRAILER_MAGIC,
    SKIPPABLE,
    TRAILER,
    TRAILER_MAGIC,
    TRAILER_VERSION,
    ObjectTrailer,
    SkippableHeader,
)
from lakebed.aof.tiers.object_store import METADATA_BYTES_MAX
from lakebed.base.errors import Corrupt, UnknownVersion
from lakebed.kernels import crc64nvme

_JSON_BYTES_MAX = 8 * METADATA_BYTES_MAX
TRAILER_BYTES_MAX = SKIPPABLE.size + _JSON_BYTES_MAX + TRAILER.size


class FolderObject(NamedTuple):
    """The size, checksum and metadata of an object in a folder, as its trailer stores them."""

    size: int
    crc64: int
    metadata: Mapping[str, str]

    @property
    def etag(self) -> str:
        return f"{self.crc64:016x}-{self.size}"


def encode_trailer(stored: FolderObject) -> bytes:
    metadata = json.dumps(dict(stored.metadata), sort_keys=True).encode()
    trailer = ObjectTrailer(
        size=stored.size,
        crc64=stored.crc64,
        metadata_bytes=len(metadata),
        version=TRAILER_VERSION,
        reserved=0,
        checksum=0,
        magic=TRAILER_MAGIC,
    )
    trailer = trailer._replace(checksum=_checksum(metadata, trailer))
    header = SkippableHeader(OBJECT_TRAILER_MAGIC, len(metadata) + TRAILER.size)
    return SKIPPABLE.pack(header) + metadata + TRAILER.pack(trailer)


def decode_trailer(end: bytes, *, path: str, file_bytes: int) -> FolderObject:
    """Decodes the trailer at the end of an object's file.

    `end` must be the last `TRAILER_BYTES_MAX` bytes of the file, or the whole file if it is
    shorter. Raises `Corrupt` if there is no valid trailer, and `UnknownVersion` if its version is
    not supported.
    """
    if len(end) < SKIPPABLE.size + TRAILER.size:
        raise Corrupt("the file is too short for an object in a Tier 2 folder", path=path)
    trailer = TRAILER.unpack(end, len(end) - TRAILER.size)
    if trailer.magic != TRAILER_MAGIC:
        raise Corrupt(
            "the file does not end with the magic number of an object in a Tier 2 folder",
            path=path,
            found=hex(trailer.magic),
        )
    metadata_end = len(end) - TRAILER.size
    metadata_start = metadata_end - trailer.metadata_bytes
    metadata = end[max(0, metadata_start) : metadata_end]
    if metadata_start < SKIPPABLE.size or trailer.checksum != _checksum(metadata, trailer):
        raise Corrupt("the object's trailer is damaged", path=path)
    if trailer.version != TRAILER_VERSION:
        raise UnknownVersion(
            "the object has an unsupported version",
            path=path,
            expected=TRAILER_VERSION,
            found=trailer.version,
        )
    body_bytes = file_bytes - (len(end) - metadata_start) - SKIPPABLE.size
    if trailer.size != body_bytes:
        raise Corrupt(
            "the object has another size than its trailer states",
            path=path,
            expected=trailer.size,
            found=body_bytes,
        )
    return FolderObject(trailer.size, trailer.crc64, json.loads(metadata))


def _checksum(metadata: bytes, trailer: ObjectTrailer) -> int:
    return crc64nvme(TRAILER.pack(trailer._replace(checksum=0)), crc64nvme(metadata))
