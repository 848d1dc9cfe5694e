"""Verifying a topic: every byte of every partition. Nothing is changed and no lock is taken.

Beside a writer the newest segment of a partition is judged up to the durable end: what stands
behind it is not part of the log yet, and cannot be called torn. A writer may also remove or replace
segments meanwhile: one that looks damaged is looked at again, as the manifest then lists it.

A log decides: an index or a manifest that does not fit it is a problem, but no loss; opening the
topic for writing mends it. A log that compaction has replaced and the manifest does not list yet is
none at all: it is noted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import NamedTuple

from lakebed.base.clock import NS_PER_MS
from lakebed.base.damage import Verdict
from lakebed.base.errors import DataError, NotFound
from lakebed.base.files import Disk
from lakebed.base.runner import Runner
from lakebed.keratin.durable_end import load_durable_end
from lakebed.keratin.manifest import load_manifest
from lakebed.keratin.paths import PartitionPaths, TopicPaths
from lakebed.keratin.verify import (
    PartitionVerification,
    SegmentVerification,
    verify_partition,
    verify_segment,
)
from lakebed.store.read_only_topic import require_topic

_LOOK_AGAIN_NS = 20 * NS_PER_MS
_LOOKS_MAX = 3
MENDABLE = "mendable"

Progress = Callable[[int, int], None]
"""Called with how many partitions were looked at, of how many."""


class TopicProblem(NamedTuple):
    """Something that is not what it must be; of a log `[offset, offset + length)`."""

    partition: int
    path: str | None
    offset: int | None
    length: int
    verdict: str  # torn, corrupt, or mendable: nothing is lost
    problem: str

    def __str__(self) -> str:
        if self.path is None:
            return f"partition {self.partition}: {self.verdict}: {self.problem}"
        place = "" if self.offset is None else f"at byte {self.offset}: "
        return f"{self.path}: {place}{self.verdict}: {self.problem}"


class LostOffsets(NamedTuple):
    """Messages `[start, end)` of a partition that are lost, as far as their neighbours tell."""

    partition: int
    start: int
    end: int

    def __str__(self) -> str:
        last = self.end - 1
        which = f"offset {last} is" if self.start == last else f"offsets {self.start} to {last} are"
        return f"partition {self.partition}: {which} lost"


class TopicReport(NamedTuple):
    """What was found."""

    partitions: int
    segments: int
    records: int
    problems: tuple[TopicProblem, ...]
    lost: tuple[LostOffsets, ...]
    notes: tuple[str, ...]  # oddities that no rule forbids


def verify_topic(
    disk: Disk, root: str, name: str, *, runner: Runner, progress: Progress
) -> TopicReport:
    """Beside a writer, or after it; `NotFound` if there is no such topic."""
    paths = TopicPaths(root, name)
    count = require_topic(disk, paths).partition_count
    found = []
    for number in range(count):
        found.append(_verify_beside(disk, paths.partition(number), runner))
        progress(number + 1, count)
    return report_of(found)


def verify_alone(
    disk: Disk, root: str, name: str, *, progress: Progress
) -> list[PartitionVerification]:
    """All that is in the files. Only for who holds the lock, while the topic is not open."""
    paths = TopicPaths(root, name)
    count = require_topic(disk, paths).partition_count
    found = []
    for number in range(count):
        found.append(_with_replaced(disk, verify_partition(disk, paths.partition(number))))
        progress(number + 1, count)
    return found


def report_of(found: list[PartitionVerification]) -> TopicReport:
    """`found` are all partitions, by number."""
    segments = [segment for partition in found for segment in partition.segments]
    inspections = [segment.inspection for segment in segments if segment.inspection]
    return TopicReport(
        partitions=len(found),
        segments=len(segments),
        records=sum(one.record_count - one.control_count for one in inspections),
        problems=tuple(
            problem for number, one in enumerate(found) for problem in _problems(number, one)
        ),
        lost=tuple(
            LostOffsets(number, *lost)
            for number, one in enumerate(found)
            for lost in one.lost_offsets
        ),
        notes=tuple(note for one in found for note in one.notes),
    )


def _verify_beside(disk: Disk, paths: PartitionPaths, runner: Runner) -> PartitionVerification:
    published = load_durable_end(disk, paths.durable_end)
    is_live = published is not None and published.boot_id == disk.boot_id()
    found = verify_partition(disk, paths, is_live=is_live)
    if not is_live:
        return found
    for _ in range(_LOOKS_MAX - 1):
        if not found.problems:
            break
        runner.sleep_ns(_LOOK_AGAIN_NS)  # the active segment may have been another meanwhile
        found = verify_partition(disk, paths, is_live=is_live)
    if any(map(_is_suspect, found.segments)):
        runner.sleep_ns(_LOOK_AGAIN_NS)
        found = replace(found, segments=tuple(_looked_at_again(disk, paths, found)))
    found = replace(found, segments=tuple(map(_without_tail, found.segments)))
    return _with_replaced(disk, found)


def _looked_at_again(
    disk: Disk, paths: PartitionPaths, found: PartitionVerification
) -> Iterator[SegmentVerification]:
    """The same segments, but for those that were removed or replaced meanwhile."""
    try:
        manifest = load_manifest(disk, paths.manifest)
    except (NotFound, DataError):
        yield from found.segments
        return
    listed = {segment.base_offset: segment for segment in manifest.segments}
    for segment in found.segments:
        if not _is_suspect(segment):
            yield segment
        elif segment.base_offset in listed:
            again = verify_segment(disk, paths, listed[segment.base_offset])
            if again.inspection is not None or _is_listed(disk, paths, segment.base_offset):
                yield again
        elif not segment.is_sealed and segment.inspection is not None:
            yield segment


def _is_listed(disk: Disk, paths: PartitionPaths, base_offset: int) -> bool:
    """Now, after its file was found to be missing."""
    manifest = load_manifest(disk, paths.manifest)
    return any(segment.base_offset == base_offset for segment in manifest.segments)


def _is_suspect(segment: SegmentVerification) -> bool:
    return segment.verdict is Verdict.CORRUPT or bool(segment.index_problems)


def _without_tail(segment: SegmentVerification) -> SegmentVerification:
    """Where somebody may be writing, an unfinished end is no problem, nor are its indexes."""
    if segment.is_sealed or segment.inspection is None:
        return segment
    inspection = segment.inspection
    if inspection.verdict is Verdict.TORN:
        inspection = replace(inspection, verdict=Verdict.WHOLE, tail=None, header_error=None)
    return replace(segment, inspection=inspection, index_problems=())


def _with_replaced(disk: Disk, found: PartitionVerification) -> PartitionVerification:
    """Logs that are whole, but shorter than the manifest says, are so by compaction."""
    segments, notes = [], list(found.notes)
    for segment in found.segments:
        if segment.inspection is not None and _is_replaced(disk, segment):
            whole = replace(segment.inspection, verdict=Verdict.WHOLE, damages=())
            notes.append(f"{segment.path}: was replaced, and the manifest does not list that yet")
            segments.append(replace(segment, inspection=whole, index_problems=()))
        else:
            segments.append(segment)
    return replace(found, segments=tuple(segments), notes=tuple(notes))


def _is_replaced(disk: Disk, segment: SegmentVerification) -> bool:
    """A log that was cut short lacks its last offset; one that was rewritten always has it."""
    inspection = segment.inspection
    if inspection is None or inspection.header_error is not None or len(inspection.damages) != 1:
        return False
    [damage] = inspection.damages
    if damage.start != inspection.end or damage.first_offset < damage.next_offset:
        return False
    try:
        with disk.open(segment.path) as file:
            return file.size() <= inspection.end
    except NotFound:
        return False


def _problems(number: int, found: PartitionVerification) -> Iterator[TopicProblem]:
    for problem in found.problems:
        yield TopicProblem(number, None, None, 0, MENDABLE, problem)
    for segment in found.segments:
        yield from _problems_of(number, segment)


def _problems_of(number: int, segment: SegmentVerification) -> Iterator[TopicProblem]:
    path, inspection = segment.path, segment.inspection
    if inspection is None:
        yield TopicProblem(number, path, None, 0, Verdict.CORRUPT.value, "the file is missing")
        return
    verdict = inspection.verdict.value
    if inspection.header_error is not None:
        yield TopicProblem(number, path, 0, 0, verdict, inspection.header_error.problem)
    tail = [] if inspection.tail is None else [inspection.tail]
    for damage in sorted([*inspection.damages, *tail]):
        length = damage.end - damage.start
        yield TopicProblem(number, path, damage.start, length, verdict, damage.problem)
    for problem in segment.index_problems:
        yield TopicProblem(number, None, None, 0, MENDABLE, problem)
