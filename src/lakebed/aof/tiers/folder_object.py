"""The trailer that makes an object in a folder whole: its size, its checksum, its metadata.

It stands behind the object's bytes in the same file, so that object and metadata appear and are
replaced together.
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
    """What the trailer says."""

    size: int
    crc64: int
    metadata: Mapping[str, str]

    @property
    def etag(self) -> str:
        return f"{self.crc64:016x}-{self.size}"


def encode_trailer(found: FolderObject) -> bytes:
    metadata = json.dumps(dict(found.metadata), sort_keys=True).encode()
    trailer = ObjectTrailer(
        size=found.size,
        crc64=found.crc64,
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
    """From the last bytes of a file, `TRAILER_BYTES_MAX` or all of them; else `Corrupt`."""
    if len(end) < SKIPPABLE.size + TRAILER.size:
        raise Corrupt("not an object of a Tier 2 folder", path=path)
    trailer = TRAILER.unpack(end, len(end) - TRAILER.size)
    if trailer.magic != TRAILER_MAGIC:
        raise Corrupt("not an object of a Tier 2 folder", path=path, found=hex(trailer.magic))
    metadata_end = len(end) - TRAILER.size
    metadata_start = metadata_end - trailer.metadata_bytes
    metadata = end[max(0, metadata_start) : metadata_end]
    if metadata_start < SKIPPABLE.size or trailer.checksum != _checksum(metadata, trailer):
        raise Corrupt("the object's trailer is damaged", path=path)
    if trailer.version != TRAILER_VERSION:
        raise UnknownVersion(
            "an object", path=path, expected=TRAILER_VERSION, found=trailer.version
        )
    body_bytes = file_bytes - (len(end) - metadata_start) - SKIPPABLE.size
    if trailer.size != body_bytes:
        raise Corrupt(
            "the object's size is wrong", path=path, expected=trailer.size, found=body_bytes
        )
    return FolderObject(trailer.size, trailer.crc64, json.loads(metadata))


def _checksum(metadata: bytes, trailer: ObjectTrailer) -> int:
    return crc64nvme(TRAILER.pack(trailer._replace(checksum=0)), crc64nvme(metadata))
