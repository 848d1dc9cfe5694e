"""The file `manifest.bin`: the sealed segments, offsets and settings of a partition.

It is always replaced as a whole. It is only a shortcut: the records in the logs are authoritative,
and without a manifest recovery scans all logs that exist. A start offset within a segment is lost
with the manifest: the partition then begins with its oldest segment.
"""

from __future__ import annotations

from typing import NamedTuple

from lakebed.base.errors import Corrupt, Torn, UnknownVersion
from lakebed.base.files import Disk, PathLike, read_file, replace_atomically
from lakebed.base.layout import Buffer
from lakebed.base.units import MIB
from lakebed.keratin.format import (
    HAS_START_OFFSET,
    MANIFEST,
    MANIFEST_HEADER,
    MANIFEST_MAGIC,
    MANIFEST_SEGMENT,
    START_OFFSET,
    VERSION,
    Manifest,
    ManifestHeader,
    ManifestSegment,
    StartOffset,
)
from lakebed.kernels import crc32c

MANIFEST_BYTES_MAX = 256 * MIB


class PartitionManifest(NamedTuple):
    """The decoded contents of `manifest.bin`."""

    created_ms: int
    segment_bytes_max: int
    index_stride_bytes: int
    open_segments_max: int
    active_base_offset: int
    next_offset: int
    start_offset: int = 0
    segments: tuple[ManifestSegment, ...] = ()  # the sealed ones, oldest first


def encode_manifest(manifest: PartitionManifest) -> bytes:
    payload = Manifest(
        created_ms=manifest.created_ms,
        segment_bytes_max=manifest.segment_bytes_max,
        index_stride_bytes=manifest.index_stride_bytes,
        open_segments_max=manifest.open_segments_max,
        reserved=0,
        active_base_offset=manifest.active_base_offset,
        next_offset=manifest.next_offset,
        segment_count=len(manifest.segments),
    )
    parts = [MANIFEST.pack(payload), *map(MANIFEST_SEGMENT.pack, manifest.segments)]
    if manifest.start_offset:
        parts.append(START_OFFSET.pack(StartOffset(manifest.start_offset)))
    body = b"".join(parts)
    header = ManifestHeader(
        magic=MANIFEST_MAGIC,
        version=VERSION,
        flags=HAS_START_OFFSET if manifest.start_offset else 0,
        header_length=MANIFEST_HEADER.size,
        crc32c=crc32c(body),
    )
    return MANIFEST_HEADER.pack(header) + body


def decode_manifest(data: Buffer, *, path: PathLike) -> PartitionManifest:
    """Decodes a manifest; raises `Torn` or `Corrupt` if it is damaged.

    The file is replaced atomically, so even `Torn` means damage, not an unfinished write. Raises
    `UnknownVersion` if a newer release wrote it.
    """
    if len(data) < MANIFEST_HEADER.size + MANIFEST.size:
        raise Torn("the manifest is cut short", path=path, offset=0, found=len(data))
    header = MANIFEST_HEADER.unpack(data)
    if header.magic != MANIFEST_MAGIC:
        raise Corrupt(
            "not a manifest: its magic number is wrong",
            path=path,
            expected=MANIFEST_MAGIC,
            found=header.magic,
        )
    if header.version > VERSION and not _is_flipped(header, data):
        raise UnknownVersion(
            "unsupported manifest version", path=path, expected=VERSION, found=header.version
        )
    crc = crc32c(data[MANIFEST_HEADER.size :])
    is_ours = header.version == VERSION and MANIFEST_HEADER.size <= header.header_length <= len(
        data
    )
    if crc != header.crc32c or not is_ours:
        raise Corrupt(
            "the manifest's checksum or header is wrong",
            path=path,
            expected=header.crc32c,
            found=crc,
        )
    # A longer header has additional, unknown fields; the payload follows it.
    start = header.header_length + MANIFEST.size
    if len(data) < start:
        raise Corrupt(
            "the manifest has the wrong length", path=path, expected=start, found=len(data)
        )
    payload = MANIFEST.unpack(data, header.header_length)
    end = start + payload.segment_count * MANIFEST_SEGMENT.size
    has_start = header.flags & HAS_START_OFFSET
    expected = end + (START_OFFSET.size if has_start else 0)
    if len(data) != expected:
        raise Corrupt(
            "the manifest has the wrong length", path=path, expected=expected, found=len(data)
        )
    return PartitionManifest(
        created_ms=payload.created_ms,
        segment_bytes_max=payload.segment_bytes_max,
        index_stride_bytes=payload.index_stride_bytes,
        open_segments_max=payload.open_segments_max,
        active_base_offset=payload.active_base_offset,
        next_offset=payload.next_offset,
        start_offset=START_OFFSET.unpack(data, end).start_offset if has_start else 0,
        segments=tuple(MANIFEST_SEGMENT.iter_unpack(data[start:end])),
    )


def _is_flipped(header: ManifestHeader, data: Buffer) -> bool:
    """Returns whether the version is ours with one flipped bit, so that the file is damaged.

    The checksum does not cover the version. So the version counts as flipped if it differs from
    ours in one bit and everything else is a valid manifest of our version. A newer version that
    differs from ours in one bit must therefore have another layout.
    """
    if (header.version ^ VERSION).bit_count() != 1 or header.header_length != MANIFEST_HEADER.size:
        return False
    body = data[MANIFEST_HEADER.size :]
    payload = MANIFEST.unpack(body)
    size = MANIFEST.size + payload.segment_count * MANIFEST_SEGMENT.size
    size += START_OFFSET.size if header.flags & HAS_START_OFFSET else 0
    return crc32c(body) == header.crc32c and len(body) == size


def load_manifest(disk: Disk, path: PathLike) -> PartitionManifest:
    """Reads and decodes the manifest.

    Raises `NotFound` if there is no manifest, and the errors of `decode_manifest`.
    """
    data = read_file(disk, path, size_max=MANIFEST_BYTES_MAX)
    return decode_manifest(data, path=path)


def replace_manifest(disk: Disk, path: PathLike, manifest: PartitionManifest) -> None:
    replace_atomically(disk, path, encode_manifest(manifest))
