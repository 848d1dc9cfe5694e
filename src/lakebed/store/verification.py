"""Verifies a log on disk: every checksum of every segment, and that no segment is missing.

Nothing is changed and no lock is taken. While another process writes, a segment that is not sealed
is checked up to the durable end: bytes after that are not part of the log yet. If the durable end
is not known (the machine was restarted, or the file is missing or damaged) the whole file is
checked. An archived segment whose base offset in the log is not known is reported, and not checked.

A segment that is sealed according to the sealed pointer must have a footer. A segment that is only
in a colder tier is part of the log too; `tier_verification` checks it there.

`Verification.pieces` lists the segments to check, with all facts that the check needs, and
`check_segment` checks one segment, in this process or another.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

from lakebed.aof.archived_log import archived_info, archived_names, segment_name
from lakebed.aof.footer import decode_footer
from lakebed.aof.format import (
    FOOTER_BYTES,
    RECORDS_START,
    DurableEnd,
    SealedPointer,
    next_base_offset,
    records_end_max,
)
from lakebed.aof.inspection import Inspection, Verdict
from lakebed.aof.interchange_segment import is_interchange_file
from lakebed.aof.manifest.state import Residency, SegmentState
from lakebed.aof.paths import LogPaths, SegmentName
from lakebed.aof.pointer import FILE_BYTES_MAX, decode_durable_end, decode_pointer
from lakebed.aof.segment_inspector import inspect_segment
from lakebed.aof.view import SegmentInfo
from lakebed.base.errors import DataError, DiskError, InputError, NotFound, Torn
from lakebed.base.files import Disk, File, read_file
from lakebed.base.files.salvage import Salvaged, read_around
from lakebed.base.layout import Buffer
from lakebed.store.residency import recorded

_READ_ATTEMPTS = 8


class Problem(NamedTuple):
    """Bytes `[offset, offset + length)` of a file that are torn or corrupt.

    `offset` is None for a problem of the whole file or folder at `path`.
    """

    path: str
    offset: int | None
    length: int
    verdict: Verdict  # torn or corrupt
    problem: str

    def __str__(self) -> str:
        place = "" if self.offset is None else f"at byte {self.offset}: "
        return f"{self.path}: {place}{self.verdict.value}: {self.problem}"


class SegmentPiece(NamedTuple):
    """One unit of the check: a segment's file, and facts about it from other files of the log."""

    name: SegmentName
    path: str
    confirmed: int | None  # how many bytes of an unsealed segment are durable; None if not known
    must_be_sealed: bool  # whether it is a problem if the file has no good footer
    is_cut: bool  # whether bytes after `confirmed` are not checked while the file has no footer
    is_archived: bool = False


class SegmentReport(NamedTuple):
    """The result of checking one segment.

    `inspection` is None if the segment has an unknown version, cannot be read, or was removed.
    """

    name: SegmentName
    path: str
    inspection: Inspection | None
    problems: tuple[Problem, ...]


class Verification:
    """Lists the segments of a log, and finds problems without reading the segments' content."""

    def __init__(self, disk: Disk, paths: LogPaths, *, whole_tail: bool = False) -> None:
        """`whole_tail` also checks bytes after the durable end; no process may write then."""
        self._disk = disk
        self._paths = paths
        self._whole_tail = whole_tail
        self.problems: list[Problem] = []  # of the log, not of one segment
        # Read before the segments are listed, so that all segments that they name are listed.
        self._pointer = self._load_pointer()
        self._durable = self._load_durable_end()
        is_known = self._durable is not None and self._durable.boot_id == disk.boot_id()
        self._is_end_known = is_known
        self._archived = self._load_archived()
        self._list_segments()
        if self._missing():  # a segment may have moved to another tier in between
            self._list_segments()
        self._check_order()

    def pieces(self) -> list[SegmentPiece]:
        """Returns the segments to check, oldest first."""
        return [self._piece(index, name) for index, name in enumerate(self.names)]

    def archived(self) -> list[SegmentPiece]:
        """Returns the archived segments to check, oldest first.

        They are no longer part of the log.
        """
        return [
            SegmentPiece(segment_name(info), info.path, None, True, False, is_archived=True)
            for info in self._archived
        ]

    def elsewhere(self) -> list[SegmentState]:
        """Returns the segments that are only in colder tiers, oldest first."""
        here = {name.segment_id for name in self.names}
        return [
            state
            for state in self.states.values()
            if state.segment_id not in here
            and (state.is_sealed and state.is_held)
            and not state.residency & Residency.TIER0
        ]

    def _list_segments(self) -> None:
        """Lists the segment files, and then reads the manifest log.

        The order matters: see `residency`.
        """
        names = map(SegmentName.parse, self._disk.names(self._paths.segments))
        self.names = sorted(name for name in names if name is not None)
        self.states, self._manifest_problems = recorded(self._disk, self._paths)

    def _missing(self) -> list[tuple[int, int]]:
        """Returns the ranges `[first, end)` of segment ids that are missing between others.

        Such a segment is in no tier.
        """
        segment_ids = {name.segment_id for name in self.names}
        segment_ids |= {state.segment_id for state in self.elsewhere()}
        pairs = pairwise(sorted(segment_ids))
        return [(left + 1, right) for left, right in pairs if left + 1 < right]

    def _piece(self, index: int, name: SegmentName) -> SegmentPiece:
        confirmed = self._confirmed(index, name)
        must_be_sealed = self._pointer is not None and name.segment_id <= self._pointer.segment_id
        is_bounded = self._is_end_known and not self._whole_tail and confirmed is not None
        is_cut = is_bounded and not must_be_sealed
        return SegmentPiece(name, self._paths.segment(name), confirmed, must_be_sealed, is_cut)

    def _confirmed(self, index: int, name: SegmentName) -> int | None:
        """Returns how many bytes of a segment are durable if it is not sealed; None if not known.

        `index` is the segment's position in `self.names`.
        """
        if self._durable is None:
            return None
        if name.segment_id == self._durable.segment_id:
            return self._durable.offset
        if name.segment_id > self._durable.segment_id:
            return 0
        following = self.names[index + 1] if index + 1 < len(self.names) else None
        if following is None or following.segment_id != name.segment_id + 1:
            return None
        return following.base_offset - next_base_offset(name.base_offset, 0)

    def _check_order(self) -> None:
        for problem in self._manifest_problems:
            text = (
                f"segments in colder tiers may be unknown, run lakebed manifest verify: {problem}"
            )
            self._add(self._paths.manifest, text)
        for previous, name in pairwise(self.names):
            if previous.segment_id == name.segment_id:
                path = self._paths.segment(name)
                self._add(path, "another file has the same segment number")
        paths = {name.segment_id: self._paths.segment(name) for name in self.names}
        for first, end in self._missing():
            missing = f"segment {first}" if first + 1 == end else f"segments {first} to {end - 1}"
            path = paths.get(end, self._paths.segments)
            place = "before it" if end in paths else f"before segment {end}"
            self._add(path, f"missing {place}: {missing}")
        durable = self._durable
        newest = max([*paths, *(state.segment_id for state in self.elsewhere())], default=-1)
        is_lost = durable is not None and newest < durable.segment_id
        if is_lost and durable is not None and durable.offset > RECORDS_START:
            problem = f"segment {durable.segment_id} is missing, although it has durable records"
            self._add(self._paths.segments, problem)

    def _add(self, path: str, problem: str) -> None:
        self.problems.append(Problem(path, None, 0, Verdict.CORRUPT, problem))

    def _load_archived(self) -> list[SegmentInfo]:
        """Describes the archived segments; adds a problem for each that cannot be described."""
        infos: list[SegmentInfo] = []
        for name in archived_names(self._disk, self._paths):
            path = self._paths.archived(name)
            try:
                info = archived_info(self._disk, self._paths, name)
            except NotFound:
                continue  # an operator deleted it just now
            except DataError as error:
                self.problems.append(problem_of(error, path))
                continue
            except DiskError as error:
                self.problems.append(_read_problem(path, error))
                continue
            except InputError as error:  # its base offset is not known
                self._add(path, str(error).removeprefix(f"{path}: "))
                continue
            if infos and infos[-1].segment_id == info.segment_id:
                self._add(path, "another archived file has the same segment number")
            infos.append(info)
        return infos

    def _load_pointer(self) -> SealedPointer | None:
        path = self._paths.pointer
        try:
            return decode_pointer(read_file(self._disk, path, size_max=FILE_BYTES_MAX), path=path)
        except NotFound:
            return None
        except DataError as error:
            self.problems.append(problem_of(error, path))
            return None

    def _load_durable_end(self) -> DurableEnd | None:
        """Loads the durable end; returns None if its file is missing or damaged.

        A file that looks damaged is read several times, because a writer overwrites it in place.
        A damaged file is not reported as a problem, because the durable end is only a hint.
        """
        path = self._paths.durable_end
        for _ in range(_READ_ATTEMPTS):
            try:
                return decode_durable_end(read_file(self._disk, path, size_max=FILE_BYTES_MAX))
            except NotFound:
                return None
            except DataError:
                continue
        return None


def check_segment(disk: Disk, piece: SegmentPiece) -> SegmentReport:
    """Checks every byte of a segment's file.

    With `piece.is_cut`, bytes after the first `piece.confirmed` are not checked, unless the file
    has a good footer by now, or is an interchange file, which is published whole. If the file does
    not exist, no problem is reported: the segment was moved or removed.
    """
    try:
        with disk.open(piece.path) as file:
            salvaged, confirmed = _content(file, file.size(), piece)
    except NotFound:
        return SegmentReport(piece.name, piece.path, None, ())
    except DiskError as error:
        return SegmentReport(piece.name, piece.path, None, (_read_problem(piece.path, error),))
    report = judge_content(salvaged.data, piece, confirmed=confirmed)
    unread = [
        _read_problem(piece.path, bad.error)._replace(offset=bad.start, length=bad.end - bad.start)
        for bad in salvaged.unreadable
    ]
    return report._replace(problems=(*unread, *report.problems))


def _read_problem(path: str, error: DiskError) -> Problem:
    return Problem(path, None, 0, Verdict.CORRUPT, f"cannot be read: {error}")


def judge_content(data: Buffer, piece: SegmentPiece, *, confirmed: int | None) -> SegmentReport:
    """Checks `data`, the content of a segment's whole file, wherever it was read from.

    `confirmed` is how many bytes of it are known to be durable; None if the segment is sealed, or
    if that is not known.
    """
    name, path = piece.name, piece.path
    try:
        inspection = inspect_segment(data, name=name, confirmed=confirmed)
    except DataError as error:
        return SegmentReport(name, path, None, (problem_of(error, path),))
    size = memoryview(data).nbytes
    problems = [*_damages(inspection, path), *_footer_problems(inspection, piece, size)]
    return SegmentReport(name, path, inspection, tuple(problems))


def _content(file: File, size: int, piece: SegmentPiece) -> tuple[Salvaged, int | None]:
    """Returns the bytes to check, and how many of them are known to be durable.

    Bytes that are not checked are replaced by zeros. The number is None for a sealed segment, for
    an interchange file, to whose offsets `piece.confirmed` does not apply, and if it is not known.
    """
    if _is_sealed(file, size):
        return read_around(file, size), None
    if piece.is_cut and piece.confirmed is not None:
        used = read_around(file, min(piece.confirmed, size))
        content = bytes(used.data).ljust(size, b"\0")
        return used._replace(data=memoryview(content)), piece.confirmed
    return read_around(file, size), piece.confirmed


def _footer_problems(inspection: Inspection, piece: SegmentPiece, size: int) -> Iterator[Problem]:
    if inspection.is_sealed or not piece.must_be_sealed:
        return
    why = inspection.footer_problem or "it has no footer"
    problem = f"the segment must be sealed, but its footer is missing or damaged: {why}"
    offset = max(0, size - FOOTER_BYTES)
    yield Problem(piece.path, offset, FOOTER_BYTES, Verdict.CORRUPT, problem)


def _is_sealed(file: File, size: int) -> bool:
    """Whether the file does not change any more: it has a good footer, or was published whole."""
    try:
        if is_interchange_file(file):
            return True
        if size < RECORDS_START + FOOTER_BYTES:
            return False
        return decode_footer(file.pread(records_end_max(size), FOOTER_BYTES)) is not None
    except (DataError, DiskError):
        return False  # damaged, or being written


def _damages(inspection: Inspection, path: str) -> Iterator[Problem]:
    """Yields the problems that the inspection found, in file order."""
    tail = [] if inspection.tail is None else [inspection.tail]
    for damage in sorted([*inspection.damages, *inspection.problems, *tail]):
        is_torn = inspection.verdict is Verdict.TORN
        verdict = Verdict.TORN if is_torn else Verdict.CORRUPT
        yield Problem(path, damage.offset, damage.length, verdict, damage.problem)


def problem_of(error: DataError, path: str) -> Problem:
    """Turns an error about a file's content into a problem.

    `path` is the file if the error does not name one.
    """
    verdict = Verdict.TORN if isinstance(error, Torn) else Verdict.CORRUPT
    facts = "" if error.expected is None else f", expected {error.expected}"
    facts += "" if error.found is None else f", found {error.found}"
    file_path = path if error.path is None else os.fspath(error.path)
    return Problem(file_path, error.offset, 0, verdict, f"{error.problem}{facts}")
