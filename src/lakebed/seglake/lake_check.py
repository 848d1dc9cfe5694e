"""Checks a lake: reads every chunk, every manifest and the end of every segment.

    report = verify(lake, runner=runner)
    report.problems

It only reads, marks nothing, and works beside a writer: what seems wrong is looked at once more,
and told only if it is still there. With a bucket, or a prefix in it, the objects there and their
manifest files are checked; without one also SQLite's file, the key that seals secrets, all
segments, and whether files are there that belong to nothing. Memory is bounded by a page of
manifests and what it finds.

Bytes that no version and no upload refers to any more are not read.

It is done in three steps, which may be apart: `plan_lake` lists what there is to check, a
`LakeCheck` checks one piece after the other, `join_lake` makes one report of all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from lakebed.base.errors import DataError, DiskError, LakebedError
from lakebed.base.runner import Runner
from lakebed.seglake.chunk_reader import ChunkReader
from lakebed.seglake.config import SeglakeConfig
from lakebed.seglake.errors import Damaged, SecretKeyMismatch
from lakebed.seglake.file_checks import FileChecks
from lakebed.seglake.listing import ListedVersion, list_versions
from lakebed.seglake.manifest import Manifest, decode
from lakebed.seglake.manifest_files import WRITTEN
from lakebed.seglake.meta.reader import key_bytes
from lakebed.seglake.meta.rows import (
    ApiKeyRow,
    PartRow,
    PendingManifest,
    SegmentRow,
    UploadRow,
    VersionRow,
)
from lakebed.seglake.model import NULL_VERSION, Chunk, State
from lakebed.seglake.read_only import ReadOnlyLake
from lakebed.seglake.segment_id import segment_path
from lakebed.seglake.upload_rows import all_parts, part_manifest
from lakebed.seglake.verification_plan import (
    ChunksPiece,
    LakePiece,
    LakePlan,
    SegmentsPiece,
    UploadPiece,
    VersionsPiece,
    Whole,
    plan_lake,
)
from lakebed.seglake.verification_report import (
    Finding,
    Kind,
    Problem,
    Report,
    VersionPart,
    damage_text,
    join,
)
from lakebed.seglake.versions import row_of

if TYPE_CHECKING:  # imported if there are secrets
    from lakebed.seglake.secret_key import SecretKey

_PAGE = 100  # manifests that are held at a time
_NO_CACHE = SeglakeConfig(cache_bytes=0)  # what is on the disk counts

OnProgress = Callable[[Report], object]


def verify(
    lake: ReadOnlyLake,
    *,
    runner: Runner,
    bucket: str | None = None,
    prefix: str = "",
    progress: OnProgress = lambda _report: None,
) -> Report:
    """All of it, or a bucket, or what has a prefix there. `progress` is called now and then."""
    plan = plan_lake(lake, bucket=bucket, prefix=prefix)
    done = Report()  # of it only what is counted

    def tell(report: Report) -> None:
        progress(replace(report, bytes=done.bytes + report.bytes))

    found = []
    with LakeCheck(lake, runner=runner, progress=tell) as check:
        for piece in plan.pieces:
            found.append(check.run(piece))
            done.bytes += found[-1].report.bytes
    return join_lake(plan, found)


def join_lake(plan: LakePlan, found: Iterable[Finding]) -> Report:
    """`found` in the order of the pieces."""
    return join(found, problems=plan.problems, notes=plan.notes)


class LakeCheck:
    """Of pieces of one lake, one after the other."""

    def __init__(
        self,
        lake: ReadOnlyLake,
        *,
        runner: Runner,
        progress: OnProgress = lambda _report: None,
    ) -> None:
        """`progress` is told what was found in a piece so far."""
        self._lake = lake
        self._metadata = lake.metadata
        self._chunks = ChunkReader(
            lake.paths.segments, disk=lake.disk, runner=runner, config=_NO_CACHE
        )
        self._progress = progress
        self._segments: dict[str, SegmentRow] = {}
        self._begin()

    def run(self, piece: LakePiece) -> Finding:
        """What is wrong with it is found, and never raised."""
        found = self._begin()
        try:
            self._check(piece, found)
        except DataError as error:  # of the database, which ends what can be read of it
            found.report.problems.append(self._of_metadata(str(error)))
        return found

    def close(self) -> None:
        """Idempotent."""
        self._chunks.close()

    def __enter__(self) -> LakeCheck:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _begin(self) -> Finding:
        found = Finding()
        self.report = found.report
        self._files = FileChecks(self._lake, found.report)
        return found

    def _check(self, piece: LakePiece, found: Finding) -> None:
        if piece is Whole.METADATA:
            with self._metadata.snapshot() as reader:
                problems = reader.problems()
            self.report.problems += [self._of_metadata(why) for why in problems]
        elif piece is Whole.SECRETS:
            self._check_secrets()
        elif piece is Whole.STRAYS:
            self._files.check_strays()
        elif isinstance(piece, SegmentsPiece):
            self._files.check_segments(piece.rows)
        elif isinstance(piece, VersionsPiece):
            self._check_versions(piece)
        elif isinstance(piece, UploadPiece):
            self._check_upload(piece.row)
        elif isinstance(piece, ChunksPiece):
            found.part = self._checked_part(piece)

    def _check_versions(self, piece: VersionsPiece) -> None:
        last = None if piece.last is None else key_bytes(piece.last)
        for listed, current, stored in self._versions(piece.bucket, piece.prefix, piece.after):
            if last is not None and key_bytes(listed.row.key) > last:
                return
            self.report.versions += 1
            self._check_version(listed, current, stored, piece.apart)
            self._progress(self.report)

    # Access keys.

    def _check_secrets(self) -> None:
        """That `secret.key` opens all that was sealed with it; one for which it is not, is told."""
        with self._metadata.snapshot() as reader:
            rows = reader.api_keys()
        path = self._lake.paths.secret_key
        if not rows and not self._lake.disk.exists(path):
            return
        from lakebed.seglake.secret_key import read_secret_key, require_secret_key

        try:
            read = require_secret_key if rows else read_secret_key
            key = read(self._lake.disk, path)
            for row in rows:
                self._check_secret(key, row)
        except (DataError, DiskError) as error:
            problem = Problem(kind=Kind.SECRET_KEY, why=str(error), path=path)
            self.report.problems.append(problem)

    def _check_secret(self, key: SecretKey, row: ApiKeyRow) -> None:
        try:
            key.unseal(row.secret, access_key=row.access_key)
        except SecretKeyMismatch:
            raise
        except DataError as error:
            why = f"access key {row.access_key}: {error}"
            self.report.problems.append(self._of_metadata(why))

    # Versions.

    def _versions(
        self, bucket: str, prefix: str, after: str
    ) -> Iterator[tuple[ListedVersion, VersionRow | None, PendingManifest | None]]:
        """Each with the current version of its key and its manifest, as they were at one time."""
        key_marker: str | None = after
        version_id_marker: str | None = None
        while key_marker is not None:
            with self._metadata.snapshot() as reader:
                page = list_versions(
                    reader,
                    bucket,
                    prefix=prefix,
                    key_marker=key_marker,
                    version_id_marker=version_id_marker,
                    max_keys=_PAGE,
                )
                found = [
                    (
                        listed,
                        reader.current(bucket, listed.row.key),
                        reader.manifest_file(listed.row.version_id),
                    )
                    for listed in page.items
                ]
            yield from found
            key_marker, version_id_marker = page.next_marker, page.next_id

    def _check_version(
        self,
        listed: ListedVersion,
        current: VersionRow | None,
        stored: PendingManifest | None,
        apart: tuple[str, ...],
    ) -> None:
        row = listed.row
        about = _about(row)
        if listed.is_latest and current != row:
            self._add(about, "it is the newest version, and not the current one")
        manifest = self._manifest_of(row, stored, about)
        if manifest is None or stored is None or stored.data is None:
            return
        data = stored.data
        if row.version_id not in apart:
            of_object = replace(about, kind=Kind.OBJECT)
            is_there = partial(self._has_version, row, data)
            is_whole = self._check_chunks(manifest, of_object, is_there)
            if is_whole and row.state is State.DAMAGED:
                self.report.add_whole(about)
        if stored.file_state == WRITTEN:
            self._files.check_manifest_file(row.version_id, data, about)

    def _manifest_of(
        self, row: VersionRow, stored: PendingManifest | None, about: Problem
    ) -> Manifest | None:
        """What the row's manifest says, if it can be read and is that row's."""
        if stored is None or stored.data is None:
            self._add(about, "it has no manifest")
            return None
        try:
            manifest = decode(stored.data, path="its manifest in the metadata")
        except DataError as error:
            self._add(about, str(error))
            return None
        told = row_of(manifest)
        is_marker = State.DELETED in (told.state, row.state)
        if replace(told, state=row.state) != row or (is_marker and told.state is not row.state):
            self._add(about, "its manifest tells something else than the metadata beside it")
        return manifest

    def _checked_part(self, piece: ChunksPiece) -> VersionPart | None:
        """None if the version has gone, or cannot be read: whoever checks its row tells that."""
        with self._metadata.snapshot() as reader:
            row = reader.version(piece.bucket, piece.key, piece.version_id)
            data = reader.manifest(piece.version_id)
        if row is None or data is None:
            return None
        try:
            manifest = decode(data, path="its manifest in the metadata")
        except DataError:
            return None
        chunks = list(_beginning_in(manifest, piece.start, piece.end))
        damaged = self._damaged(chunks)
        if damaged and not self._has_version(row, data):
            return None
        return VersionPart(
            about=replace(_about(row), kind=Kind.OBJECT),
            is_marked=row.state is State.DAMAGED,
            chunks=len(chunks),
            damaged=len(damaged),
            first=str(damaged[0]) if damaged else "",
        )

    # Uploads.

    def _check_upload(self, upload: UploadRow) -> None:
        with self._metadata.snapshot() as reader:
            parts = list(all_parts(reader, upload.upload_id))
        for part in parts:
            self.report.parts += 1
            about = Problem(
                kind=Kind.OBJECT,
                why="",
                bucket=upload.bucket,
                key=upload.key,
                upload_id=upload.upload_id,
                part_number=part.number,
            )
            try:
                manifest = part_manifest(part)
            except DataError as error:
                self._add(replace(about, kind=Kind.METADATA), str(error))
                continue
            self._check_chunks(manifest, about, partial(self._has_part, part))
            self._progress(self.report)

    # Chunks.

    def _check_chunks(
        self, manifest: Manifest, about: Problem, is_still_there: Callable[[], bool]
    ) -> bool:
        """Whether all are whole; if not it is told once, with the first that is not."""
        damaged = self._damaged(manifest.chunks)
        if damaged and is_still_there():
            count = len(manifest.chunks)
            self._add(about, damage_text(len(damaged), str(damaged[0]), count=count))
        return not damaged

    def _damaged(self, chunks: Iterable[Chunk]) -> list[LakebedError]:
        damaged: list[LakebedError] = []
        for chunk in chunks:
            try:
                self._check_place(chunk)
                self._chunks.read(chunk)
            except (DataError, DiskError) as error:
                damaged.append(error)
            self.report.chunks += 1
            self.report.bytes += chunk.length
            self._progress(self.report)
        return damaged

    def _check_place(self, chunk: Chunk) -> None:
        """It must lie in what its segment is known to hold durably."""
        if self._is_placed(chunk):
            return
        with self._metadata.snapshot() as reader:  # it may be newer than the last look
            self._segments = {one.segment_id: one for one in reader.segments()}
        if not self._is_placed(chunk):
            path = segment_path(self._lake.paths.segments, chunk.segment_id)
            raise Damaged("not in what is recorded of it", path=path, offset=chunk.offset)

    def _is_placed(self, chunk: Chunk) -> bool:
        segment = self._segments.get(chunk.segment_id)
        return segment is not None and chunk.offset + chunk.length <= segment.size

    def _has_version(self, row: VersionRow, data: bytes) -> bool:
        """With the same chunks: it may have been removed, or moved, while it was read."""
        with self._metadata.snapshot() as reader:
            found = reader.version(row.bucket, row.key, row.version_id)
            return found is not None and reader.manifest(row.version_id) == data

    def _has_part(self, part: PartRow) -> bool:
        with self._metadata.snapshot() as reader:
            return part in reader.parts(part.upload_id, after=part.number - 1, limit=1)

    def _add(self, about: Problem, why: str) -> None:
        self.report.problems.append(replace(about, why=why))

    def _of_metadata(self, why: str) -> Problem:
        return Problem(kind=Kind.METADATA, why=why, path=self._metadata.path)


def _about(row: VersionRow) -> Problem:
    """What tells which version it is."""
    return Problem(
        kind=Kind.METADATA,
        why="",
        bucket=row.bucket,
        key=row.key,
        version_id=NULL_VERSION if row.is_null else row.version_id,
    )


def _beginning_in(manifest: Manifest, start: int, end: int) -> Iterator[Chunk]:
    at = 0
    for chunk in manifest.chunks:
        if start <= at < end:
            yield chunk
        at += chunk.length
