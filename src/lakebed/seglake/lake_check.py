"""Verifies an object store: reads the chunks and manifests of all versions and uploaded parts.

    report = verify(lake, runner=runner)
    report.problems

The check only reads; it does not mark damaged versions. It works while a writer is running: before
it reports damaged data or a damaged file, it reads the metadata again to see whether the version,
part or file still exists.

If a bucket, or a bucket and a prefix, is given, only the objects and multipart uploads there, and
the manifest files of these objects, are checked. Otherwise the SQLite file, the key that encrypts
secrets, the size, header and footer of all segments, and manifest files without a version are
checked as well. Bytes that no version and no upload refers to are not read. Memory is bounded by a
page of manifests, the rows of all segments and uploads, and the problems found.

The check has three steps, which may run on different machines: `plan_lake` lists the pieces to
check, a `LakeCheck` checks them one by one, and `join_lake` merges the results into one report.
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

if TYPE_CHECKING:  # imported at run time only if there are secrets
    from lakebed.seglake.secret_key import SecretKey

_PAGE = 100  # manifests in memory at a time
_NO_CACHE = SeglakeConfig(cache_bytes=0)  # the check must read from the disk

OnProgress = Callable[[int], object]


def verify(
    lake: ReadOnlyLake,
    *,
    runner: Runner,
    bucket: str | None = None,
    prefix: str = "",
    progress: OnProgress = lambda _bytes: None,
) -> Report:
    """Checks the whole store, one bucket, or the objects of a bucket whose keys have a prefix.

    `progress` is called repeatedly with the number of bytes read so far. Raises `NoSuchBucket` if
    the bucket does not exist.
    """
    plan = plan_lake(lake, bucket=bucket, prefix=prefix)
    findings = []
    done_bytes = 0

    def report_progress(piece_bytes: int) -> None:
        progress(done_bytes + piece_bytes)

    with LakeCheck(lake, runner=runner, progress=report_progress) as check:
        for piece in plan.pieces:
            findings.append(check.run(piece))
            done_bytes += findings[-1].report.bytes
    return join_lake(plan, findings)


def join_lake(plan: LakePlan, findings: Iterable[Finding]) -> Report:
    """Merges the findings into one report. They must be in the order of the plan's pieces."""
    return join(findings, problems=plan.problems, notes=plan.notes)


class LakeCheck:
    """Checks pieces of one object store, one at a time."""

    def __init__(
        self,
        lake: ReadOnlyLake,
        *,
        runner: Runner,
        progress: OnProgress = lambda _bytes: None,
    ) -> None:
        """`progress` is called repeatedly with the number of bytes read of the current piece."""
        self._lake = lake
        self._metadata = lake.metadata
        self._chunks = ChunkReader(
            lake.paths.segments, disk=lake.disk, runner=runner, config=_NO_CACHE
        )
        self._progress = progress
        self._segments: dict[str, SegmentRow] = {}
        self._begin()

    def run(self, piece: LakePiece) -> Finding:
        """Checks a piece and returns the result.

        Damaged data, and a folder, file or database that cannot be read, are reported in the
        result, not raised.
        """
        finding = self._begin()
        try:
            self._check(piece, finding)
        except (DataError, DiskError) as error:  # the database is damaged or cannot be read
            finding.report.problems.append(self._of_metadata(str(error)))
        return finding

    def close(self) -> None:
        """Closes the segment files. Idempotent."""
        self._chunks.close()

    def __enter__(self) -> LakeCheck:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _begin(self) -> Finding:
        finding = Finding()
        self.report = finding.report
        self._files = FileChecks(self._lake, finding.report)
        return finding

    def _check(self, piece: LakePiece, finding: Finding) -> None:
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
            finding.part = self._checked_part(piece)

    def _check_versions(self, piece: VersionsPiece) -> None:
        last = None if piece.last is None else key_bytes(piece.last)
        for listed, current, stored in self._versions(piece.bucket, piece.prefix, piece.after):
            if last is not None and key_bytes(listed.row.key) > last:
                return
            self.report.versions += 1
            self._check_version(listed, current, stored, piece.apart)
            self._progress(self.report.bytes)

    # Access keys.

    def _check_secrets(self) -> None:
        """Reports a missing or damaged `secret.key`, and secrets that it does not decrypt."""
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
        """Yields each version of the bucket's keys that have `prefix` and come after `after`.

        Each comes with the current version of the same key and with its manifest, or None if the
        metadata has none. All three are from one snapshot.
        """
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
                rows = [
                    (
                        listed,
                        reader.current(bucket, listed.row.key),
                        reader.manifest_file(listed.row.version_id),
                    )
                    for listed in page.items
                ]
            yield from rows
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
            self._add(
                about,
                "this is the newest version of its key, but not recorded as the current version, "
                "or recorded with other values",
            )
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
        """Returns the version's manifest, or None if it is missing or cannot be read.

        Reports a manifest that is missing, cannot be read or differs from the version's row.
        """
        if stored is None or stored.data is None:
            self._add(about, "the version has no manifest in the metadata")
            return None
        try:
            manifest = decode(stored.data, path="its manifest in the metadata")
        except DataError as error:
            self._add(about, str(error))
            return None
        manifest_row = row_of(manifest)
        is_marker = State.DELETED in (manifest_row.state, row.state)
        if replace(manifest_row, state=row.state) != row or (
            is_marker and manifest_row.state is not row.state
        ):
            self._add(about, "the version's manifest and its row in the metadata differ")
        return manifest

    def _checked_part(self, piece: ChunksPiece) -> VersionPart | None:
        """Checks some chunks of a large version and returns the result.

        Returns None if the version was removed or replaced, or if its manifest cannot be read. The
        `VersionsPiece` that contains the version reports an unreadable manifest.
        """
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
            version_chunks=len(manifest.chunks),
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
            self._progress(self.report.bytes)

    # Chunks.

    def _check_chunks(
        self, manifest: Manifest, about: Problem, is_still_there: Callable[[], bool]
    ) -> bool:
        """Checks all chunks of a manifest and returns whether they are intact.

        Reports damage as one problem, which describes the first damaged chunk, unless
        `is_still_there` returns False.
        """
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
            self._progress(self.report.bytes)
        return damaged

    def _check_place(self, chunk: Chunk) -> None:
        """Raises `Damaged` unless the chunk lies within its segment as recorded in the metadata."""
        if self._is_placed(chunk):
            return
        with self._metadata.snapshot() as reader:  # the chunk may be newer than these rows
            self._segments = {segment.segment_id: segment for segment in reader.segments()}
        if not self._is_placed(chunk):
            path = segment_path(self._lake.paths.segments, chunk.segment_id)
            raise Damaged(
                "the metadata does not record the chunk's segment, or records a size that does not "
                "include the whole chunk",
                path=path,
                offset=chunk.offset,
            )

    def _is_placed(self, chunk: Chunk) -> bool:
        row = self._segments.get(chunk.segment_id)
        return row is not None and chunk.offset + chunk.length <= row.size

    def _has_version(self, row: VersionRow, data: bytes) -> bool:
        """Whether the version still exists and its manifest in the metadata is still `data`."""
        with self._metadata.snapshot() as reader:
            current = reader.version(row.bucket, row.key, row.version_id)
            return current is not None and reader.manifest(row.version_id) == data

    def _has_part(self, part: PartRow) -> bool:
        with self._metadata.snapshot() as reader:
            return part in reader.parts(part.upload_id, after=part.number - 1, limit=1)

    def _add(self, about: Problem, why: str) -> None:
        self.report.problems.append(replace(about, why=why))

    def _of_metadata(self, why: str) -> Problem:
        return Problem(kind=Kind.METADATA, why=why, path=self._metadata.path)


def _about(row: VersionRow) -> Problem:
    """Returns a `Problem` that names the version and has no description yet."""
    return Problem(
        kind=Kind.METADATA,
        why="",
        bucket=row.bucket,
        key=row.key,
        version_id=NULL_VERSION if row.is_null else row.version_id,
    )


def _beginning_in(manifest: Manifest, start: int, end: int) -> Iterator[Chunk]:
    position = 0
    for chunk in manifest.chunks:
        if start <= position < end:
            yield chunk
        position += chunk.length
