"""The part of a verification that checks files: segments and manifest files.

A writer may remove a file during the check. So a problem with a file is reported only if the
metadata, read again after the check, still refers to the file. A manifest file that belongs to no
version is reported only if it still exists. A folder or file that cannot be read is a problem too,
and does not end the check.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from dataclasses import replace
from typing import NamedTuple

from lakebed.base.errors import DataError, DiskError, InputError, NotFound
from lakebed.base.files import Disk, File
from lakebed.seglake.manifest_files import WRITTEN, ManifestFiles
from lakebed.seglake.meta.rows import SEALED, SegmentRow
from lakebed.seglake.read_only import ReadOnlyLake
from lakebed.seglake.segment_file import HEADER_BYTES, read_sealed, segment_header
from lakebed.seglake.segment_id import segment_id_of, segment_path
from lakebed.seglake.verification_report import Kind, Problem, Report

_is_fan_out = re.compile(r"[0-9a-f]{2}").fullmatch


class FileChecks:
    """Checks segment and manifest files, and adds the problems and notes to a report."""

    def __init__(self, lake: ReadOnlyLake, report: Report) -> None:
        self._disk = lake.disk
        self._metadata = lake.metadata
        self._segments_folder = lake.paths.segments
        self._manifests_folder = lake.paths.manifests
        self._files = ManifestFiles(lake.paths.manifests, disk=lake.disk)
        self._report = report

    # Segments.

    def check_segments(self, rows: Iterable[SegmentRow]) -> None:
        for row in rows:
            self._report.segments += 1
            self._check_segment(row)

    def _check_segment(self, row: SegmentRow) -> None:
        path = segment_path(self._segments_folder, row.segment_id)
        try:
            with self._disk.open(path) as file:
                why = (
                    _sealed_problem(file, row) if row.state == SEALED else _open_problem(file, row)
                )
        except NotFound:
            why = f"{path}: the segment file is missing"
        except (DataError, DiskError) as error:
            why = str(error)
        if why and self._has_segment(row):
            self._report.problems.append(Problem(kind=Kind.SEGMENT, why=why, path=path))

    def _has_segment(self, row: SegmentRow) -> bool:
        with self._metadata.snapshot() as reader:
            return row in reader.segments()

    # Manifest files.

    def check_manifest_file(self, version_id: str, data: bytes, about: Problem) -> None:
        """Checks that the manifest file of a version contains exactly `data`.

        Call it only if the metadata records the file as written.
        """
        self._report.manifest_files += 1
        path: str | None = None
        try:
            path = self._files.path(version_id)
            with self._disk.open(path) as file:
                file_data = file.pread(0, len(data) + 1)
            why = "" if file_data == data else "the file differs from the manifest in the metadata"
        except NotFound:
            why = "the file is missing"
        except (DiskError, InputError) as error:
            why = str(error)
        if why and self._is_written(version_id, data):
            problem = replace(about, kind=Kind.MANIFEST_FILE, why=why, path=path)
            self._report.problems.append(problem)

    def check_strays(self) -> None:
        """Reports manifest files that belong to no version, and adds notes about unexpected files.

        Such manifest files are a problem because a database that is rebuilt from the manifest files
        would contain objects that were deleted. A folder that cannot be listed is reported too, and
        the other folders are checked.
        """
        for fan_out in self._names(self._manifests_folder):
            folder = os.path.join(self._manifests_folder, fan_out)
            if not _is_fan_out(fan_out) or not self._disk.is_folder(folder):
                self._report.notes.append(f"{folder}: unexpected file; not a manifest folder")
                continue
            names = self._names(folder)
            with self._metadata.snapshot() as reader:
                strays = [name for name in names if reader.manifest_file(name) is None]
            for name in strays:
                path = os.path.join(folder, name)
                if self._disk.exists(path):
                    why = "the file belongs to no version"
                    problem = Problem(kind=Kind.MANIFEST_FILE, why=why, path=path)
                    self._report.problems.append(problem)

    def _is_written(self, version_id: str, data: bytes) -> bool:
        """Whether the metadata still records the version's manifest file as written."""
        with self._metadata.snapshot() as reader:
            stored = reader.manifest_file(version_id)
        return stored is not None and (stored.file_state, stored.data) == (WRITTEN, data)

    def _names(self, folder: str) -> list[str]:
        return _names(self._disk, folder, Kind.MANIFEST_FILE, self._report.problems)


class RecordedSegments(NamedTuple):
    """The rows of all segments in the metadata, and what is wrong or unusual in their folder."""

    rows: list[SegmentRow]
    problems: list[Problem]  # at most one: the folder cannot be listed
    notes: list[str]  # for each file that is not a segment, or whose segment has no row


def recorded_segments(lake: ReadOnlyLake) -> RecordedSegments:
    """Reads the rows of all segments, and compares them with the names in the segment folder."""
    folder = lake.paths.segments
    problems: list[Problem] = []
    # The names are read before the rows, which may be added meanwhile.
    names = _names(lake.disk, folder, Kind.SEGMENT, problems)
    with lake.metadata.snapshot() as reader:
        rows = reader.segments()
    recorded_ids = {row.segment_id for row in rows}
    notes = []
    for name in names:
        segment_id = segment_id_of(name)
        path = os.path.join(folder, name)
        if segment_id is None:
            notes.append(f"{path}: unexpected file; not a segment")
        elif segment_id not in recorded_ids:
            why = "not in the metadata: a segment that is still being written, or left by a crash"
            notes.append(f"{path}: {why}")
    return RecordedSegments(rows, problems, notes)


def _names(disk: Disk, folder: str, kind: Kind, problems: list[Problem]) -> list[str]:
    """Returns the names in the folder, or none if it does not exist or cannot be listed.

    Adds a problem of that kind if the folder cannot be listed.
    """
    try:
        return disk.names(folder)
    except NotFound:
        return []
    except DiskError as error:
        problems.append(Problem(kind=kind, why=str(error), path=folder))
        return []


def _sealed_problem(file: File, row: SegmentRow) -> str:
    """Compares the size and the footer's checksum of a sealed segment with the metadata.

    Returns a description of the difference, or "" if there is none. Raises `DataError` if the
    header, the bloom filter, the index or the footer is damaged. Does not read the records.
    """
    size = file.size()
    if size != row.size:
        return f"{file.path}: the segment has {size} bytes, but was sealed with {row.size} bytes"
    sealed = read_sealed(file)
    if row.footer_checksum is not None and sealed.checksum != row.footer_checksum:
        return f"{file.path}: the footer's checksum differs from the one recorded in the metadata"
    return ""


def _open_problem(file: File, row: SegmentRow) -> str:
    size = file.size()
    if size < row.size:
        return f"{file.path}: the segment has {size} bytes, but {row.size} bytes were durable"
    if row.size and file.pread(0, HEADER_BYTES) != segment_header():
        return f"{file.path}: at byte 0: wrong segment header"
    return ""
