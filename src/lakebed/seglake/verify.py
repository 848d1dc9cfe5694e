"""Checks a lake: reads every chunk, every manifest and the end of every segment.

    report = verify(lake, runner=runner)
    report.problems

It only reads, marks nothing, and works beside a writer: what seems wrong is looked at once more,
and told only if it is still there. With a bucket, or a prefix in it, the objects there and their
manifest files are checked; without one also SQLite's file, all segments, and whether files are
there that belong to nothing. Memory is bounded by a page of manifests and what it finds.

Bytes that no version and no upload refers to any more are not read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial

from lakebed.base.errors import DataError, DiskError, LakebedError
from lakebed.base.runner import Runner
from lakebed.seglake.chunk_reader import ChunkReader
from lakebed.seglake.config import SeglakeConfig
from lakebed.seglake.errors import Damaged
from lakebed.seglake.listing import ListedVersion, list_uploads, list_versions
from lakebed.seglake.manifest import Manifest, decode
from lakebed.seglake.manifest_files import WRITTEN
from lakebed.seglake.meta.rows import PartRow, PendingManifest, SegmentRow, UploadRow, VersionRow
from lakebed.seglake.model import NULL_VERSION, Chunk, State
from lakebed.seglake.read_only import ReadOnlyLake
from lakebed.seglake.segment_id import segment_path
from lakebed.seglake.upload_rows import all_parts, part_manifest
from lakebed.seglake.verification_report import Kind, Problem, Report
from lakebed.seglake.verify_files import FileChecks
from lakebed.seglake.versions import require_bucket, row_of

_PAGE = 100  # manifests that are held at a time
_NO_CACHE = SeglakeConfig(cache_bytes=0)  # what is on the disk counts

OnProgress = Callable[[Report], None]


def verify(
    lake: ReadOnlyLake,
    *,
    runner: Runner,
    bucket: str | None = None,
    prefix: str = "",
    progress: OnProgress = lambda _report: None,
) -> Report:
    """All of it, or a bucket, or what has a prefix there. `progress` is called now and then."""
    chunks = ChunkReader(lake.paths.segments, disk=lake.disk, runner=runner, config=_NO_CACHE)
    try:
        checking = _Verification(lake, chunks, progress)
        if bucket is None:
            checking.check_all()
        else:
            checking.check_bucket(bucket, prefix)
        return checking.report
    finally:
        chunks.close()


class _Verification:
    def __init__(self, lake: ReadOnlyLake, chunks: ChunkReader, progress: OnProgress) -> None:
        self.report = Report()
        self._lake = lake
        self._metadata = lake.metadata
        self._chunks = chunks
        self._progress = progress
        self._files = FileChecks(lake, self.report)
        self._segments: dict[str, SegmentRow] = {}

    def check_all(self) -> None:
        try:
            with self._metadata.reading() as reader:
                found = reader.problems()
            self.report.problems += [self._of_metadata(why) for why in found]
            self._files.check_segments()
            names = [bucket.name for bucket in self._lake.buckets.list()]
            for name in names:
                self._check_bucket(name, "")
            self._files.check_strays()
        except DataError as error:  # of the database, which ends what can be read of it
            self.report.problems.append(self._of_metadata(str(error)))

    def check_bucket(self, name: str, prefix: str) -> None:
        with self._metadata.reading() as reader:
            require_bucket(reader, name)
        try:
            self._check_bucket(name, prefix)
        except DataError as error:
            self.report.problems.append(self._of_metadata(str(error)))

    def _check_bucket(self, name: str, prefix: str) -> None:
        for listed, current, stored in self._versions(name, prefix):
            self.report.versions += 1
            self._check_version(listed, current, stored)
            self._progress(self.report)
        for upload in self._uploads(name, prefix):
            self._check_upload(upload)

    # Versions.

    def _versions(
        self, bucket: str, prefix: str
    ) -> Iterator[tuple[ListedVersion, VersionRow | None, PendingManifest | None]]:
        """Each with the current version of its key and its manifest, as they were at one time."""
        key_marker: str | None = ""
        version_id_marker: str | None = None
        while key_marker is not None:
            with self._metadata.reading() as reader:
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
        self, listed: ListedVersion, current: VersionRow | None, stored: PendingManifest | None
    ) -> None:
        row = listed.row
        about = Problem(
            kind=Kind.METADATA,
            why="",
            bucket=row.bucket,
            key=row.key,
            version_id=NULL_VERSION if row.is_null else row.version_id,
        )
        if listed.is_latest and current != row:
            self._add(about, "it is the newest version, and not the current one")
        manifest = self._manifest_of(row, stored, about)
        if manifest is None or stored is None or stored.data is None:
            return
        data = stored.data
        of_object = replace(about, kind=Kind.OBJECT)
        is_whole = self._check_chunks(manifest, of_object, lambda: self._has_version(row, data))
        if is_whole and row.state is State.DAMAGED:
            where = f"{row.bucket}/{row.key}, version {about.version_id}"
            self.report.notes.append(f"{where}: it is marked as damaged, and is whole")
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
        if told._replace(state=row.state) != row or (is_marker and told.state is not row.state):
            self._add(about, "its manifest tells something else than the metadata beside it")
        return manifest

    # Uploads.

    def _uploads(self, bucket: str, prefix: str) -> Iterator[UploadRow]:
        key_marker: str | None = ""
        upload_id_marker: str | None = None
        while key_marker is not None:
            with self._metadata.reading() as reader:
                page = list_uploads(
                    reader,
                    bucket,
                    prefix=prefix,
                    key_marker=key_marker,
                    upload_id_marker=upload_id_marker,
                )
            yield from page.items
            key_marker, upload_id_marker = page.next_marker, page.next_id

    def _check_upload(self, upload: UploadRow) -> None:
        with self._metadata.reading() as reader:
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
        damaged: list[LakebedError] = []
        for chunk in manifest.chunks:
            try:
                self._check_place(chunk)
                self._chunks.read(chunk)
            except (DataError, DiskError) as error:
                damaged.append(error)
            self.report.chunks += 1
            self.report.bytes += chunk.length
            self._progress(self.report)
        if damaged and is_still_there():
            self._add(about, _told(damaged, len(manifest.chunks)))
        return not damaged

    def _check_place(self, chunk: Chunk) -> None:
        """It must lie in what its segment is known to hold durably."""
        if self._is_placed(chunk):
            return
        with self._metadata.reading() as reader:  # it may be newer than the last look
            self._segments = {one.segment_id: one for one in reader.segments()}
        if not self._is_placed(chunk):
            path = segment_path(self._lake.paths.segments, chunk.segment_id)
            raise Damaged("not in what is recorded of it", path=path, offset=chunk.offset)

    def _is_placed(self, chunk: Chunk) -> bool:
        segment = self._segments.get(chunk.segment_id)
        return segment is not None and chunk.offset + chunk.length <= segment.size

    def _has_version(self, row: VersionRow, data: bytes) -> bool:
        """With the same chunks: it may have been removed, or moved, while it was read."""
        with self._metadata.reading() as reader:
            found = reader.version(row.bucket, row.key, row.version_id)
            return found is not None and reader.manifest(row.version_id) == data

    def _has_part(self, part: PartRow) -> bool:
        with self._metadata.reading() as reader:
            return part in reader.parts(part.upload_id, after=part.number - 1, limit=1)

    def _add(self, about: Problem, why: str) -> None:
        self.report.problems.append(replace(about, why=why))

    def _of_metadata(self, why: str) -> Problem:
        return Problem(kind=Kind.METADATA, why=why, path=self._metadata.path)


def _told(damaged: list[LakebedError], count: int) -> str:
    if len(damaged) == count == 1:
        return str(damaged[0])
    return f"{len(damaged)} of {count} chunks are lost, the first: {damaged[0]}"
