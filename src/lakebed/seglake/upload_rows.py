"""Converts multipart uploads and their parts to and from rows of the metadata.

An upload's row has the headers of the future object, encoded like a manifest's metadata section. A
part's row has a manifest of its own, whose chunks become chunks of the object.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from lakebed.seglake.manifest import Manifest, decode, encode
from lakebed.seglake.manifest_metadata import Metadata, decode_metadata, encode_metadata
from lakebed.seglake.meta.reader import Reader
from lakebed.seglake.meta.rows import PartRow, UploadRow
from lakebed.seglake.model import Algorithm, Checksum, Chunk, Content


@dataclass(frozen=True, kw_only=True)
class UploadInfo:
    """A multipart upload in progress."""

    upload_id: str
    bucket: str
    key: str
    started_ms: int
    content: Content
    algorithm: Algorithm | None  # of the object's checksum, if one was chosen
    is_composite: bool  # whether that checksum is composite


@dataclass(frozen=True, kw_only=True)
class PartInfo:
    number: int
    etag: str
    size: int
    modified_ms: int
    checksums: tuple[Checksum, ...]


def upload_row(upload: UploadInfo) -> UploadRow:
    chosen: tuple[Checksum, ...] = ()
    if upload.algorithm is not None:
        chosen = (Checksum(upload.algorithm, "", is_composite=upload.is_composite),)
    details = encode_metadata(Metadata(content=upload.content, checksums=chosen))
    return UploadRow(
        upload_id=upload.upload_id,
        bucket=upload.bucket,
        key=upload.key,
        initiated_ms=upload.started_ms,
        content_type=upload.content.content_type,
        details=details.decode(),
    )


def upload_info(row: UploadRow) -> UploadInfo:
    details = decode_metadata(row.details.encode(), size=0)
    chosen = details.checksums[0] if details.checksums else None
    return UploadInfo(
        upload_id=row.upload_id,
        bucket=row.bucket,
        key=row.key,
        started_ms=row.initiated_ms,
        content=details.content,
        algorithm=None if chosen is None else chosen.algorithm,
        is_composite=chosen is not None and chosen.is_composite,
    )


def part_row(upload: UploadInfo, part: PartInfo, chunks: tuple[Chunk, ...]) -> PartRow:
    manifest = Manifest(
        bucket=upload.bucket,
        key=upload.key,
        version_id=upload.upload_id,
        size=part.size,
        chunks=chunks,
        etag=part.etag,
        checksums=part.checksums,
    )
    return PartRow(
        upload_id=upload.upload_id,
        number=part.number,
        etag=part.etag,
        size=part.size,
        modified_ms=part.modified_ms,
        chunks=encode(manifest),
        checksums=encode_metadata(Metadata(checksums=part.checksums)).decode(),
    )


def part_info(row: PartRow) -> PartInfo:
    return PartInfo(
        number=row.number,
        etag=row.etag,
        size=row.size,
        modified_ms=row.modified_ms,
        checksums=decode_metadata(row.checksums.encode(), size=row.size).checksums,
    )


def part_manifest(row: PartRow) -> Manifest:
    return decode(row.chunks, path=f"upload {row.upload_id}, part {row.number}")


def all_parts(reader: Reader, upload_id: str) -> Iterator[PartRow]:
    """Yields all parts of the upload, in order of part number."""
    after = 0
    while rows := reader.parts(upload_id, after=after):
        yield from rows
        after = rows[-1].number
