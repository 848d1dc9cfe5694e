"""Splits the verification of an object store into pieces.

The pieces can be checked in any order, and on any machine that can read the store. Planning reads
only rows of the metadata and names of segment files. Versions are checked by ranges of keys, so a
plan stays valid while the store is being written to: versions that are added to a range are checked
too, and removed versions are not reported as missing.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from typing import NamedTuple

from lakebed.base.errors import DataError, DiskError
from lakebed.base.units import KIB, MIB
from lakebed.seglake.file_checks import recorded_segments
from lakebed.seglake.listing import list_uploads, list_versions
from lakebed.seglake.meta.rows import SegmentRow, UploadRow, VersionRow
from lakebed.seglake.model import CHUNK_BYTES
from lakebed.seglake.read_only import ReadOnlyLake
from lakebed.seglake.upload_rows import all_parts
from lakebed.seglake.verification_report import Kind, Problem
from lakebed.seglake.versions import require_bucket

_SEGMENTS_OF_A_PIECE = 256
_SEGMENT_END_BYTES = 64 * KIB  # about what the check of a segment reads


class Whole(Enum):
    """A piece of the check that covers the whole of one kind of data and is never split."""

    METADATA = "metadata"  # the SQLite file
    SECRETS = "secrets"  # `secret.key` and the secrets encrypted with it
    STRAYS = "strays"  # manifest files that belong to no version


class SegmentsPiece(NamedTuple):
    """A piece of the check: the headers, indexes and footers of some segments."""

    rows: tuple[SegmentRow, ...]


class VersionsPiece(NamedTuple):
    """A piece of the check: all versions of a bucket's keys in a range.

    The range has the keys with `prefix` that come after `after`, up to and including `last`; if
    `last` is None, it has no end.
    """

    bucket: str
    prefix: str
    after: str = ""
    last: str | None = None
    apart: tuple[str, ...] = ()  # ids of versions whose chunks are checked as separate pieces
    size: int = 0  # bytes of the other versions, if known


class ChunksPiece(NamedTuple):
    """A piece of the check: the chunks of one large version that begin in a byte range.

    The range goes from `start` up to, but not including, `end`.
    """

    bucket: str
    key: str
    version_id: str
    start: int
    end: int


class UploadPiece(NamedTuple):
    """A piece of the check: all parts of a multipart upload in progress."""

    row: UploadRow
    size: int = 0  # bytes of the parts


LakePiece = Whole | SegmentsPiece | VersionsPiece | ChunksPiece | UploadPiece


class LakePlan(NamedTuple):
    """The pieces of a check, and the problems and notes found while planning it."""

    pieces: tuple[LakePiece, ...]
    problems: tuple[Problem, ...] = ()
    notes: tuple[str, ...] = ()


def size_of(piece: LakePiece) -> int:
    """Estimates how many bytes the check of a piece reads.

    The estimate for the versions of a bucket is 0 if the plan was made without `bytes_max`.
    """
    if isinstance(piece, Whole):
        return MIB
    if isinstance(piece, SegmentsPiece):
        return len(piece.rows) * _SEGMENT_END_BYTES
    if isinstance(piece, ChunksPiece):
        return piece.end - piece.start
    return piece.size


def plan_lake(
    lake: ReadOnlyLake, *, bucket: str | None = None, prefix: str = "", bytes_max: int | None = None
) -> LakePlan:
    """Plans the check of the whole store, one bucket, or the keys of a bucket with a prefix.

    With `bytes_max`, the versions are divided into pieces, and the check of each piece reads about
    that many bytes. Without it, the versions of a bucket are one piece, and planning does not read
    their rows. Raises `NoSuchBucket` if the bucket does not exist.
    """
    if bucket is not None:
        with lake.metadata.snapshot() as reader:
            require_bucket(reader, bucket)
    pieces: list[LakePiece] = []
    notes: list[str] = []
    problems: list[Problem] = []
    try:
        for piece in _listed(lake, bucket, prefix, bytes_max, problems, notes):
            pieces.append(piece)  # pieces listed before an error are kept
    except (DataError, DiskError) as error:  # the database is damaged or cannot be read
        problems.append(Problem(kind=Kind.METADATA, why=str(error), path=lake.metadata.path))
    return LakePlan(tuple(pieces), tuple(problems), tuple(notes))


def _listed(
    lake: ReadOnlyLake,
    bucket: str | None,
    prefix: str,
    bytes_max: int | None,
    problems: list[Problem],
    notes: list[str],
) -> Iterator[LakePiece]:
    if bucket is not None:
        yield from _of_bucket(lake, bucket, prefix, bytes_max)
        return
    yield Whole.METADATA
    yield Whole.SECRETS
    rows, segment_problems, segment_notes = recorded_segments(lake)
    problems += segment_problems
    notes += segment_notes
    for start in range(0, len(rows), _SEGMENTS_OF_A_PIECE):
        yield SegmentsPiece(tuple(rows[start : start + _SEGMENTS_OF_A_PIECE]))
    for info in lake.buckets.list():
        yield from _of_bucket(lake, info.name, "", bytes_max)
    yield Whole.STRAYS


def _of_bucket(
    lake: ReadOnlyLake, bucket: str, prefix: str, bytes_max: int | None
) -> Iterator[LakePiece]:
    if bytes_max is None:
        yield VersionsPiece(bucket, prefix)
    else:
        yield from _ranges(lake, VersionsPiece(bucket, prefix), bytes_max)
    for row in uploads_of(lake, bucket, prefix):
        with lake.metadata.snapshot() as reader:
            size = sum(part.size for part in all_parts(reader, row.upload_id))
        yield UploadPiece(row, size)


def _ranges(lake: ReadOnlyLake, piece: VersionsPiece, bytes_max: int) -> Iterator[LakePiece]:
    """Splits a piece into ranges of keys with about `bytes_max` bytes of objects each.

    The chunks of a version that is larger than that become separate pieces.
    """
    apart: list[ChunksPiece] = []
    key = ""
    for row in _rows(lake, piece.bucket, piece.prefix):
        if row.key != key and (apart or piece.size >= bytes_max):
            yield piece._replace(last=key)
            yield from apart
            piece, apart = VersionsPiece(piece.bucket, piece.prefix, key), []
        key = row.key
        if row.size > bytes_max:
            apart += _parts(row, bytes_max)
            piece = piece._replace(apart=(*piece.apart, row.version_id))
        else:
            piece = piece._replace(size=piece.size + row.size)
    yield piece
    yield from apart


def _parts(row: VersionRow, bytes_max: int) -> Iterator[ChunksPiece]:
    step = max(bytes_max, CHUNK_BYTES)
    for start in range(0, row.size, step):
        end = min(start + step, row.size)
        yield ChunksPiece(row.bucket, row.key, row.version_id, start, end)


def _rows(lake: ReadOnlyLake, bucket: str, prefix: str) -> Iterator[VersionRow]:
    key_marker: str | None = ""
    version_id_marker: str | None = None
    while key_marker is not None:
        with lake.metadata.snapshot() as reader:
            page = list_versions(
                reader,
                bucket,
                prefix=prefix,
                key_marker=key_marker,
                version_id_marker=version_id_marker,
            )
        yield from (listed.row for listed in page.items)
        key_marker, version_id_marker = page.next_marker, page.next_id


def uploads_of(lake: ReadOnlyLake, bucket: str, prefix: str) -> Iterator[UploadRow]:
    """Yields the uploads in progress whose keys have the prefix."""
    key_marker: str | None = ""
    upload_id_marker: str | None = None
    while key_marker is not None:
        with lake.metadata.snapshot() as reader:
            page = list_uploads(
                reader,
                bucket,
                prefix=prefix,
                key_marker=key_marker,
                upload_id_marker=upload_id_marker,
            )
        yield from page.items
        key_marker, upload_id_marker = page.next_marker, page.next_id
