"""Verifies a whole partition without changing it: its manifest, logs and indexes.

The logs are authoritative. A manifest or an index that does not match them is a problem, not a
loss. Opening the partition rebuilds a bad manifest, and indexes that are missing or have a bad
header. Wrong index entries may stay; readers verify those that they use to find messages. A missing
log is a loss. Even the loss of the newest log is found, because the manifest and the published
durable end name its segment. While a writer is running, a segment that the manifest does not list
as sealed is verified only up to the durable end, because later bytes may be half written.

Verification has three steps, which may run at different times: `plan_partition` lists the segments,
`check_segment` checks one of them, and `join_partition` combines the results.
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

_INDEX_PROBLEMS_MAX = 10  # reported for the indexes of one segment


@dataclass(frozen=True, kw_only=True)
class SegmentVerification:
    """The result of verifying a segment. `inspection` is None if its log file is missing."""

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
        """Observations about the segment that are not problems, such as unknown flags."""
        count = self.inspection.unknown_flags_count if self.inspection else 0
        return (f"{self.path}: {count} records with unknown flags",) if count else ()


@dataclass(frozen=True, kw_only=True)
class PartitionVerification:
    """The result of verifying a partition.

    `problems` were found before the segments were read. Opening the partition fixes them, unless
    its folder is missing.
    """

    name: str
    start_offset: int
    next_offset: int
    segments: tuple[SegmentVerification, ...]
    problems: tuple[str, ...]
    notes: tuple[str, ...]  # observations that are not problems
    is_missing: bool = False  # the folder is missing, and with it all messages

    @property
    def verdict(self) -> Verdict:
        """The worst verdict of all segments; `CORRUPT` if the folder is missing."""
        if self.is_missing:
            return Verdict.CORRUPT
        verdicts = {segment.verdict for segment in self.segments}
        for verdict in (Verdict.CORRUPT, Verdict.TORN):
            if verdict in verdicts:
                return verdict
        return Verdict.WHOLE

    @property
    def lost_offsets(self) -> tuple[tuple[int, int], ...]:
        """The ranges `[first, next)` of offsets, from the start on, whose messages may be lost.

        Messages lost at the end of an unsealed log, after its last good record, are not included.
        """
        ranges: list[tuple[int, int]] = []
        for index, segment in enumerate(self.segments):
            if segment.inspection is not None:
                ranges += [
                    (damage.first_offset, damage.next_offset)
                    for damage in segment.inspection.damages
                    if damage.first_offset < damage.next_offset
                ]
            else:
                following = [later.base_offset for later in self.segments[index + 1 :]]
                end = following[0] if following else self.next_offset
                if segment.base_offset < end:
                    ranges.append((segment.base_offset, end))
        start = self.start_offset
        return tuple((max(first, start), end) for first, end in ranges if end > start)


class SegmentPiece(NamedTuple):
    """One segment to check, and what the check needs to know about its partition."""

    base_offset: int
    listed: ManifestSegment | None  # its manifest entry; None if it is not listed as sealed
    published: DurableEnd | None
    is_live: bool  # whether a writer may be running


class PartitionPlan(NamedTuple):
    """The segments to check, and the problems that were found before the segments were read."""

    name: str
    start_offset: int
    next_offset: int  # according to the manifest and the published durable end
    segments: tuple[SegmentPiece, ...]
    problems: tuple[str, ...]
    notes: tuple[str, ...]
    is_missing: bool = False  # the folder is missing, and with it all messages


def verify_partition(
    disk: Disk, paths: PartitionPaths, *, is_live: bool = False
) -> PartitionVerification:
    """Verifies the manifest, the logs and the indexes of a partition.

    `is_live` means that a writer may be running: a segment that the manifest does not list as
    sealed is then verified only up to the durable end.
    """
    plan = plan_partition(disk, paths, is_live=is_live)
    return join_partition(plan, [check_segment(disk, paths, piece) for piece in plan.segments])


def plan_partition(disk: Disk, paths: PartitionPaths, *, is_live: bool = False) -> PartitionPlan:
    if not disk.is_folder(paths.segments):
        problem = f"{paths.segments}: the folder is missing, so all messages are lost"
        return PartitionPlan(paths.name, 0, 0, (), (problem,), (), is_missing=True)
    published = load_durable_end(disk, paths.durable_end)
    problems: list[str] = []
    manifest = _manifest(disk, paths, problems)
    bases = paths.bases(disk)
    listed = {entry.base_offset: entry for entry in manifest.segments} if manifest else {}
    newest = _newest_bases(manifest, published, bases)
    return PartitionPlan(
        name=paths.name,
        start_offset=manifest.start_offset if manifest else min(bases, default=0),
        next_offset=max(
            manifest.next_offset if manifest else 0, published.next_offset if published else 0
        ),
        segments=tuple(
            SegmentPiece(base, listed.get(base), published, is_live)
            for base in sorted({*bases, *listed, *newest})
        ),
        problems=tuple(problems),
        notes=tuple(
            f"{paths.segments}: {name} is a leftover of an interrupted file replacement"
            for name in disk.names(paths.segments)
            if name.endswith(TEMPORARY_SUFFIX)
        ),
    )


def join_partition(
    plan: PartitionPlan, segments: Sequence[SegmentVerification]
) -> PartitionVerification:
    """Combines the results of the plan's segments, in order.

    Results may be left out for segments that were removed after the plan was made.
    """
    ends = [segment.inspection.next_offset for segment in segments if segment.inspection]
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
    """Verifies one sealed segment."""
    piece = SegmentPiece(segment.base_offset, segment, None, is_live=False)
    return check_segment(disk, paths, piece)


def check_segment(disk: Disk, paths: PartitionPaths, piece: SegmentPiece) -> SegmentVerification:
    """Verifies every byte of a segment's log, and its indexes.

    While a writer may be running, an unsealed segment is verified only up to the durable end.
    """
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
        problems += [f"{path}: cannot be read: {stretch}" for stretch in source.unreadable]
    return SegmentVerification(
        base_offset=base,
        path=path,
        is_sealed=is_sealed,
        inspection=inspection,
        index_problems=tuple(problems),
    )


def inspect_piece(log: LogBytes, piece: SegmentPiece) -> LogInspection:
    """Inspects the bytes of a segment, which may also come from a copy such as a backup."""
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


def _newest_bases(
    manifest: PartitionManifest | None, published: DurableEnd | None, bases: Sequence[int]
) -> set[int]:
    """Returns the base offsets of the newest segment according to the manifest and the durable end.

    Both may be older than the logs. So the segment that the durable end names is included only if
    neither its log nor a later log exists.
    """
    newest = set() if manifest is None else {manifest.active_base_offset}
    if published is not None and published.base_offset > max(bases, default=-1):
        newest.add(published.base_offset)
    return newest


def _index_problems(
    disk: Disk, paths: PartitionPaths, base: int, log: LogBytes, inspection: LogInspection
) -> list[str]:
    """Returns descriptions of the index entries and indexes that do not match the log.

    After `_INDEX_PROBLEMS_MAX` descriptions, the others are only counted.
    """
    problems: list[str] = []
    path = paths.segment(base, SegmentFile.INDEX)
    try:
        for entry in load_index(disk, path, base_offset=base):
            offset = base + entry.relative_offset
            # Entries have no checksum: one that points outside the log is not followed.
            is_inside = entry.position < log.size
            run = log.scan(entry.position, log.size, bytes_max=0, count_max=1) if is_inside else 0
            if not isinstance(run, Run) or run.offsets[0] != offset:
                problems.append(
                    f"{path}: offset {offset} is not at byte {entry.position} of the log"
                )
    except UnknownVersion:
        raise
    except LakebedError as error:
        problems.append(str(error))
    path = paths.segment(base, SegmentFile.TIME_INDEX)
    try:
        for time_entry in load_time_index(disk, path, base_offset=base):
            offset = base + time_entry.relative_offset
            if offset >= max(inspection.next_offset, base + 1):
                problems.append(f"{path}: an entry for offset {offset} is after the last message")
            if time_entry.timestamp_ms > inspection.timestamp_ms_max:
                problems.append(
                    f"{path}: the timestamp {time_entry.timestamp_ms} ms is later than any message"
                )
    except UnknownVersion:
        raise
    except LakebedError as error:
        problems.append(str(error))
    if len(problems) > _INDEX_PROBLEMS_MAX:
        more = len(problems) - _INDEX_PROBLEMS_MAX
        problems = [*problems[:_INDEX_PROBLEMS_MAX], f"and {more} more"]
    return problems
