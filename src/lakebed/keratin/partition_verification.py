"""Judging a whole partition, without changing it: manifest, logs, indexes and how they fit.

A log decides: a manifest or an index that does not fit is a problem that opening the partition
mends, not a loss. Beside a live writer the newest segment is judged up to the durable end alone:
what is behind that may be half written.

It is done in three steps, which may be apart: `plan_partition` lists what there is to check,
`check_segment` checks one segment, `join_partition` makes one judgement of all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from lakebed.base.damage import Verdict
from lakebed.base.errors import DataError, LakebedError, NotFound, UnknownVersion
from lakebed.base.files import TEMPORARY_SUFFIX, Disk
from lakebed.base.files.salvage import SalvagedBytes
from lakebed.keratin.durable_end import load_durable_end
from lakebed.keratin.format import RECORDS_START, DurableEnd, ManifestSegment
from lakebed.keratin.index_file import load_index, load_time_index
from lakebed.keratin.log_bytes import LogBytes
from lakebed.keratin.log_inspection import LogInspection, inspect_log
from lakebed.keratin.manifest import PartitionManifest, load_manifest
from lakebed.keratin.paths import PartitionPaths, SegmentFile
from lakebed.keratin.run import Run

_INDEX_PROBLEMS_MAX = 10  # told of one index


@dataclass(frozen=True, kw_only=True)
class SegmentVerification:
    """One segment: `inspection` is None if its log is missing."""

    base_offset: int
    path: str
    is_sealed: bool
    inspection: LogInspection | None
    index_problems: tuple[str, ...]

    @property
    def verdict(self) -> Verdict:
        return Verdict.CORRUPT if self.inspection is None else self.inspection.verdict

    @property
    def notes(self) -> tuple[str, ...]:
        """Oddities that no rule forbids."""
        unknown = self.inspection.unknown_flags_count if self.inspection else 0
        return (f"{self.path}: {unknown} records with unknown flags",) if unknown else ()


@dataclass(frozen=True, kw_only=True)
class PartitionVerification:
    """What was found. `problems` are mended when the partition is opened: nothing is lost."""

    name: str
    start_offset: int
    next_offset: int
    segments: tuple[SegmentVerification, ...]
    problems: tuple[str, ...]
    notes: tuple[str, ...]  # oddities that no rule forbids
    is_missing: bool = False  # its folder, and so all of its messages

    @property
    def verdict(self) -> Verdict:
        """The worst of all segments."""
        if self.is_missing:
            return Verdict.CORRUPT
        found = {segment.verdict for segment in self.segments}
        for verdict in (Verdict.CORRUPT, Verdict.TORN):
            if verdict in found:
                return verdict
        return Verdict.WHOLE

    @property
    def lost_offsets(self) -> tuple[tuple[int, int], ...]:
        """Ranges `[first, next)` in which messages are lost, as far as the neighbours tell."""
        ranges: list[tuple[int, int]] = []
        for index, segment in enumerate(self.segments):
            if segment.inspection is not None:
                ranges += [
                    (one.first_offset, one.next_offset)
                    for one in segment.inspection.damages
                    if one.first_offset < one.next_offset
                ]
            elif index + 1 < len(self.segments):
                ranges.append((segment.base_offset, self.segments[index + 1].base_offset))
        return tuple(ranges)


class SegmentPiece(NamedTuple):
    """One segment, and what the rest of the partition says of it: all that its check needs."""

    base_offset: int
    listed: ManifestSegment | None  # as the manifest has it, if it is sealed
    published: DurableEnd | None
    is_live: bool  # somebody may be writing it


class PartitionPlan(NamedTuple):
    """What there is to check, and what was found before any segment was read."""

    name: str
    start_offset: int
    next_offset: int  # as the manifest has it
    segments: tuple[SegmentPiece, ...]
    problems: tuple[str, ...]
    notes: tuple[str, ...]
    is_missing: bool = False  # its folder, and so all of its messages


def verify_partition(
    disk: Disk, paths: PartitionPaths, *, is_live: bool = False
) -> PartitionVerification:
    """Every byte of it; `is_live` if somebody may be writing it."""
    plan = plan_partition(disk, paths, is_live=is_live)
    return join_partition(plan, [check_segment(disk, paths, piece) for piece in plan.segments])


def plan_partition(disk: Disk, paths: PartitionPaths, *, is_live: bool = False) -> PartitionPlan:
    if not disk.is_folder(paths.segments):
        problem = f"{paths.segments}: the folder is missing: all messages are lost"
        return PartitionPlan(paths.name, 0, 0, (), (problem,), (), is_missing=True)
    published = load_durable_end(disk, paths.durable_end)
    problems: list[str] = []
    manifest = _manifest(disk, paths, problems)
    bases = paths.bases(disk)
    listed = {one.base_offset: one for one in manifest.segments} if manifest else {}
    if manifest is not None and manifest.active_base_offset not in bases:
        problems.append(f"the active segment {manifest.active_base_offset} is missing")
    return PartitionPlan(
        name=paths.name,
        start_offset=manifest.start_offset if manifest else min(bases, default=0),
        next_offset=manifest.next_offset if manifest else 0,
        segments=tuple(
            SegmentPiece(base, listed.get(base), published, is_live)
            for base in sorted({*bases, *listed})
        ),
        problems=tuple(problems),
        notes=tuple(
            f"{paths.segments}: {name} was left by an interrupted replacement"
            for name in disk.names(paths.segments)
            if name.endswith(TEMPORARY_SUFFIX)
        ),
    )


def join_partition(
    plan: PartitionPlan, segments: Sequence[SegmentVerification]
) -> PartitionVerification:
    """`segments` in the order of the plan; some may have gone meanwhile."""
    ends = [one.inspection.next_offset for one in segments if one.inspection]
    return PartitionVerification(
        name=plan.name,
        start_offset=plan.start_offset,
        next_offset=max([plan.next_offset, *ends]),
        segments=tuple(segments),
        problems=plan.problems,
        notes=(*plan.notes, *(note for segment in segments for note in segment.notes)),
        is_missing=plan.is_missing,
    )


def verify_segment(
    disk: Disk, paths: PartitionPaths, segment: ManifestSegment
) -> SegmentVerification:
    """One sealed segment."""
    piece = SegmentPiece(segment.base_offset, segment, None, is_live=False)
    return check_segment(disk, paths, piece)


def check_segment(disk: Disk, paths: PartitionPaths, piece: SegmentPiece) -> SegmentVerification:
    """Every byte of it, and its indexes."""
    base, is_sealed = piece.base_offset, piece.listed is not None
    path = paths.segment(base, SegmentFile.LOG)
    inspection, problems = None, []
    try:
        source = SalvagedBytes(disk.open(path))
    except NotFound:
        pass
    else:
        log = LogBytes(source, path=path, base_offset=base)
        try:
            inspection = inspect_piece(log, piece)
            problems = _index_problems(disk, paths, base, log, inspection)
        finally:
            log.close()
        problems += [f"{path}: cannot be read: {bad}" for bad in source.unreadable]
    return SegmentVerification(
        base_offset=base,
        path=path,
        is_sealed=is_sealed,
        inspection=inspection,
        index_problems=tuple(problems),
    )


def inspect_piece(log: LogBytes, piece: SegmentPiece) -> LogInspection:
    """What its bytes say, wherever they are from."""
    listed, published = piece.listed, piece.published
    if listed is not None:
        return inspect_log(log, sealed_end=listed.log_bytes, next_offset=listed.last_offset + 1)
    confirmed_end = 0
    if published is not None and published.base_offset == log.base_offset:
        confirmed_end = published.position
    judged_end = max(confirmed_end, RECORDS_START) if piece.is_live else None
    return inspect_log(log, confirmed_end=confirmed_end, judged_end=judged_end)


def _manifest(disk: Disk, paths: PartitionPaths, problems: list[str]) -> PartitionManifest | None:
    try:
        return load_manifest(disk, paths.manifest)
    except UnknownVersion:
        raise
    except NotFound:
        problems.append("the manifest is missing")
    except DataError as error:
        problems.append(str(error))
    return None


def _index_problems(
    disk: Disk, paths: PartitionPaths, base: int, log: LogBytes, inspection: LogInspection
) -> list[str]:
    """What does not fit the log; a log that is damaged itself is no measure."""
    problems: list[str] = []
    path = paths.segment(base, SegmentFile.INDEX)
    try:
        for entry in load_index(disk, path, base_offset=base):
            offset = base + entry.relative_offset
            # Any bytes can be read as an entry: one that leads out of the log is not followed.
            is_inside = entry.position < log.size
            found = log.scan(entry.position, log.size, bytes_max=0, count_max=1) if is_inside else 0
            if not isinstance(found, Run) or found.offsets[0] != offset:
                problems.append(f"{path}: offset {offset} is not at byte {entry.position}")
    except UnknownVersion:
        raise
    except LakebedError as error:
        problems.append(str(error))
    path = paths.segment(base, SegmentFile.TIME_INDEX)
    try:
        for time_entry in load_time_index(disk, path, base_offset=base):
            offset = base + time_entry.relative_offset
            if offset >= max(inspection.next_offset, base + 1):
                problems.append(f"{path}: an entry for offset {offset}, behind the last message")
            if time_entry.timestamp_ms > inspection.timestamp_ms_max:
                problems.append(f"{path}: {time_entry.timestamp_ms} ms is later than any message")
    except UnknownVersion:
        raise
    except LakebedError as error:
        problems.append(str(error))
    if len(problems) > _INDEX_PROBLEMS_MAX:
        more = len(problems) - _INDEX_PROBLEMS_MAX
        problems = [*problems[:_INDEX_PROBLEMS_MAX], f"and {more} more"]
    return problems
