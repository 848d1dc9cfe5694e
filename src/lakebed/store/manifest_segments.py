"""A manifest log's state beside the segments that are on disk: where they disagree, and how badly.

The disk is ahead of the manifest log: by what is not committed yet, beside a writer, or by what a
crash took back; whoever opens the log for writing records it. Such a lag can only be at the ends of
the log: new segments and seals at its newest end, removed ones at its oldest. It is noted.
Everything else that differs is a problem: a record, or a file, is lost.
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
    """A segment's file."""

    name: SegmentName
    path: str
    is_empty: bool  # it has no record yet, and is not recorded before it does
    footer: SegmentFooter | None
    problem: str  # why what stands in the footer's place is none


class SegmentFiles(NamedTuple):
    """All of a log's."""

    folder: str
    resident: dict[int, OnDisk]
    archived: frozenset[int]


class Comparison:
    """Of one state with one look at the disk."""

    def __init__(
        self, index: ManifestIndex, files: SegmentFiles, *, is_current: bool, is_at_rest: bool
    ) -> None:
        """`is_current`: the manifest log is not switched off. `is_at_rest`: it looks as if all that
        happened had been recorded; a file that is gone was not removed by retention then."""
        self.problems: list[Problem] = []
        self.notes: list[str] = []
        self.is_doubtful = False  # a second look may find that it was only lag
        self._files = files
        self._is_current = is_current
        self._is_at_rest = is_at_rest
        states = {state.segment_id: state for state in index.segments()}
        resident = {key: one for key, one in states.items() if one.residency & Residency.TIER0}
        self.compared_count = len(resident.keys() & files.resident.keys())
        self._elsewhere = states.keys() - resident.keys()
        self._newest_known = max(states, default=-1)
        self._oldest_known = min(resident, default=self._newest_known + 1)
        self._newest_sealed = max((k for k, one in resident.items() if one.is_sealed), default=-1)
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
            what = "was evicted, or is being brought back"
            self._note(f"segment {segment_id}: {what}, and its file is there")
        elif segment_id > self._newest_known:
            self._note(f"segment {segment_id}: is on disk, and not recorded yet")
        elif segment_id < self._oldest_known:
            self._note(f"segment {segment_id}: has left the log, and its file is still there")
        else:
            problem = f"segment {segment_id} is on disk, but not in the manifest log"
            self._lack(file.path, problem)

    def _missing(self, state: SegmentState) -> None:
        segment_id, on_disk = state.segment_id, self._files.resident
        what = f"segment {segment_id}: its file is not there"
        if segment_id in self._files.archived:
            self._note(f"segment {segment_id}: is in the archive, which is not recorded yet")
        elif not state.is_sealed and not any(other > segment_id for other in on_disk):
            self._note(f"{what}; it was opened, and no record of it is durable yet")
        elif segment_id < min(on_disk, default=-1) and not self._is_at_rest:
            self._note(f"{what}; removed by retention, which is not recorded yet, or lost")
        else:
            self.is_doubtful |= segment_id < min(on_disk, default=-1)
            self._lack(self._files.folder, f"segment {segment_id} should be there, and is not")

    def _compare_file(self, state: SegmentState, file: OnDisk) -> None:
        segment_id = state.segment_id
        if state.base_offset != file.name.base_offset and state.is_opened:
            self._differs(file, "base_offset", state.base_offset, file.name.base_offset)
        if not state.is_sealed:
            if file.footer is not None and segment_id > self._newest_sealed:
                self._note(f"segment {segment_id}: is sealed, which is not recorded yet")
            elif file.footer is not None:
                self._lack(file.path, "is sealed, but not in the manifest log")
        elif file.footer is None:
            why = file.problem or "it has no footer"
            self._add(file.path, f"should be sealed, as the manifest log says: {why}")
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
        for name, (recorded, found) in pairs.items():
            if recorded != found:
                self._differs(file, name, recorded, found)

    def _differs(self, file: OnDisk, name: str, recorded: object, found: object) -> None:
        self._add(file.path, f"its {name} is {found}, the manifest log says {recorded}")

    def _lack(self, path: str, problem: str) -> None:
        """A difference that is to be expected while nothing is recorded."""
        if self._is_current:
            self._add(path, problem)
        else:
            self._note(f"{path}: {problem}")

    def _add(self, path: str, problem: str) -> None:
        self.problems.append(Problem(path, None, 0, Verdict.CORRUPT, problem))

    def _note(self, text: str) -> None:
        self.notes.append(text)


def survey_segments(disk: ReadableDisk, paths: LogPaths) -> SegmentFiles:
    """What is there now. Only headers and footers are read."""
    names = map(SegmentName.parse, disk.names(paths.segments))
    found = (_segment_on_disk(disk, paths, name) for name in sorted(filter(None, names)))
    folder = paths.archive
    archived = map(ArchivedName.parse, disk.names(folder) if disk.is_folder(folder) else [])
    return SegmentFiles(
        folder=paths.segments,
        resident={one.name.segment_id: one for one in found if one is not None},
        archived=frozenset(name.segment_id for name in archived if name is not None),
    )


def _segment_on_disk(disk: ReadableDisk, paths: LogPaths, name: SegmentName) -> OnDisk | None:
    """None if it was removed meanwhile."""
    path = paths.segment(name)
    try:
        with disk.open(path) as file:
            size = file.size()
            is_empty = not any(file.pread(0, SEGMENT_HEADER.size))
            if size < RECORDS_START + FOOTER_BYTES:
                return OnDisk(name, path, is_empty, None, f"it is too short: {size} bytes")
            footer = decode_footer(file.pread(records_end_max(size), FOOTER_BYTES))
    except NotFound:
        return None
    except DataError as error:
        return OnDisk(name, path, False, None, str(error))
    if footer is not None and footer.segment_index != name.segment_id:
        return OnDisk(
            name, path, is_empty, None, f"its footer is of segment {footer.segment_index}"
        )
    return OnDisk(name, path, is_empty, footer, "")
