"""Compares the state in a manifest log with the segment files on disk.

The manifest log may lag: while another process writes, its latest records are not committed yet,
and a crash may lose them. Opening the log for writing records what is missing. Such a lag is only
possible at the ends of the log: new and newly sealed segments at its newest end, removed segments
at its oldest end. A lag is reported as a note. So is a segment file in Tier 0 if the manifest log
has the segment only in other tiers, because the segment may be moving between tiers. Any other
difference is a problem: either a record or a file is lost. If the manifest log is switched off,
missing records and missing files are only notes.
"""

from __future__ import annotations

from typing import NamedTuple

from lakebed.aof.footer import decode_footer
from lakebed.aof.format import (
    FOOTER_BYTES,
    RECORDS_START,
    SEGMENT_HEADER,
    SegmentFooter,
    records_end_max,
)
from lakebed.aof.inspection import Verdict
from lakebed.aof.manifest.index import ManifestIndex
from lakebed.aof.manifest.state import Condition, Residency, SegmentState
from lakebed.aof.paths import ArchivedName, LogPaths, SegmentName
from lakebed.base.errors import DataError, NotFound
from lakebed.base.files import ReadableDisk
from lakebed.store.verification import Problem


class OnDisk(NamedTuple):
    """A segment file on disk, and its footer."""

    name: SegmentName
    path: str
    is_empty: bool  # it has no record yet; a manifest log records a segment with its first record
    footer: SegmentFooter | None
    problem: str  # what is wrong with the footer; empty if it is good, or not written yet


class SegmentFiles(NamedTuple):
    """The files in a log's `segments` folder by segment id, and the ids of archived segments."""

    folder: str
    resident: dict[int, OnDisk]
    archived: frozenset[int]


class Comparison:
    """Compares the state in a manifest log with the segment files on disk.

    The results are in `problems` and `notes`.
    """

    def __init__(
        self, index: ManifestIndex, files: SegmentFiles, *, is_current: bool, is_at_rest: bool
    ) -> None:
        """Compares the state `index` with `files`.

        `is_current` is False if the manifest log is switched off. `is_at_rest` is True if no record
        about a segment follows the newest snapshot: then everything seems to be recorded, and a
        missing file was not removed by retention just now.
        """
        self.problems: list[Problem] = []
        self.notes: list[str] = []
        self.is_doubtful = False  # whether a missing file may be a lag: then compare again later
        self._files = files
        self._is_current = is_current
        self._is_at_rest = is_at_rest
        states = {state.segment_id: state for state in index.segments()}
        resident = {
            segment_id: state
            for segment_id, state in states.items()
            if state.residency & Residency.TIER0
        }
        self.compared_count = len(resident.keys() & files.resident.keys())
        self._elsewhere = states.keys() - resident.keys()
        self._newest_known = max(states, default=-1)
        self._oldest_known = min(resident, default=self._newest_known + 1)
        self._newest_sealed = max(
            (segment_id for segment_id, state in resident.items() if state.is_sealed), default=-1
        )
        for segment_id in sorted(resident.keys() | files.resident.keys()):
            state, file = resident.get(segment_id), files.resident.get(segment_id)
            if state is None:
                assert file is not None
                self._unknown(segment_id, file)
            elif file is None:
                self._missing(state)
            else:
                self._compare_file(state, file)

    def _unknown(self, segment_id: int, file: OnDisk) -> None:
        if file.is_empty:
            return
        if segment_id in self._elsewhere:
            what = "is evicted or being hydrated according to the manifest log"
            self._note(f"segment {segment_id}: {what}, but its file exists")
        elif segment_id > self._newest_known:
            self._note(f"segment {segment_id}: is on disk, but not recorded yet")
        elif segment_id < self._oldest_known:
            self._note(f"segment {segment_id}: was removed from the log, but its file still exists")
        else:
            problem = f"segment {segment_id} is on disk, but not in the manifest log"
            self._lack(file.path, problem)

    def _missing(self, state: SegmentState) -> None:
        segment_id, on_disk = state.segment_id, self._files.resident
        what = f"segment {segment_id}: its file does not exist"
        if segment_id in self._files.archived:
            self._note(f"segment {segment_id}: was archived, which is not recorded yet")
        elif not state.is_sealed and not any(other > segment_id for other in on_disk):
            self._note(f"{what}; the segment was opened, but has no durable record yet")
        elif segment_id < min(on_disk, default=-1) and not self._is_at_rest:
            self._note(f"{what}; it is lost, or retention removed it and that is not recorded yet")
        else:
            self.is_doubtful |= segment_id < min(on_disk, default=-1)
            self._lack(self._files.folder, f"the file of segment {segment_id} is missing")

    def _compare_file(self, state: SegmentState, file: OnDisk) -> None:
        segment_id = state.segment_id
        is_newest = segment_id == max(self._files.resident)
        if state.base_offset == file.name.base_offset or not state.is_opened:
            pass
        elif is_newest and not state.is_sealed and not self._is_at_rest:
            self._note(f"segment {segment_id}: was begun anew, which is not recorded yet")
        else:
            self._differs(file, "base_offset", state.base_offset, file.name.base_offset)
        if not state.is_sealed:
            if file.footer is not None and segment_id > self._newest_sealed:
                self._note(f"segment {segment_id}: is sealed, which is not recorded yet")
            elif file.footer is not None:
                self._lack(file.path, "the segment is sealed, but not in the manifest log")
        elif file.footer is None:
            why = file.problem or "it has no footer"
            self._add(
                file.path, f"the segment is sealed in the manifest log, but not on disk: {why}"
            )
        else:
            self._compare_seal(state, file, file.footer)

    def _compare_seal(self, state: SegmentState, file: OnDisk, footer: SegmentFooter) -> None:
        failed = bool(state.condition & Condition.FLUSH_FAILURE)
        pairs = {
            "durable_bytes": (state.durable_bytes, footer.durable_bytes),
            "checksum": (f"{state.segment_crc64:016x}", f"{footer.payload_checksum:016x}"),
            "ext_id": (state.ext_id, footer.ext_id),
            "watermark": (state.coordinator_watermark, footer.coordinator_watermark),
            "flush_failure": (failed, bool(footer.flush_failure)),
        }
        for name, (recorded, in_file) in pairs.items():
            if recorded != in_file:
                self._differs(file, name, recorded, in_file)

    def _differs(self, file: OnDisk, name: str, recorded: object, in_file: object) -> None:
        self._add(file.path, f"its {name} is {in_file}, but {recorded} in the manifest log")

    def _lack(self, path: str, problem: str) -> None:
        """Adds a problem, or only a note if the manifest log is switched off."""
        if self._is_current:
            self._add(path, problem)
        else:
            self._note(f"{path}: {problem}")

    def _add(self, path: str, problem: str) -> None:
        self.problems.append(Problem(path, None, 0, Verdict.CORRUPT, problem))

    def _note(self, text: str) -> None:
        self.notes.append(text)


def survey_segments(disk: ReadableDisk, paths: LogPaths) -> SegmentFiles:
    """Returns the segment files of a log that exist now. Reads only headers and footers."""
    names = map(SegmentName.parse, disk.names(paths.segments))
    segment_files = (_segment_on_disk(disk, paths, name) for name in sorted(filter(None, names)))
    folder = paths.archive
    archived = map(ArchivedName.parse, disk.names(folder) if disk.is_folder(folder) else [])
    return SegmentFiles(
        folder=paths.segments,
        resident={file.name.segment_id: file for file in segment_files if file is not None},
        archived=frozenset(name.segment_id for name in archived if name is not None),
    )


def _segment_on_disk(disk: ReadableDisk, paths: LogPaths, name: SegmentName) -> OnDisk | None:
    """Reads the header and footer of a segment file; returns None if the file was removed."""
    path = paths.segment(name)
    try:
        with disk.open(path) as file:
            size = file.size()
            is_empty = not any(file.pread(0, SEGMENT_HEADER.size))
            if size < RECORDS_START + FOOTER_BYTES:
                return OnDisk(name, path, is_empty, None, f"it is too short ({size} bytes)")
            footer = decode_footer(file.pread(records_end_max(size), FOOTER_BYTES))
    except NotFound:
        return None
    except DataError as error:
        return OnDisk(name, path, False, None, str(error))
    if footer is not None and footer.segment_index != name.segment_id:
        return OnDisk(
            name, path, is_empty, None, f"its footer is that of segment {footer.segment_index}"
        )
    return OnDisk(name, path, is_empty, footer, "")
