"""What a verification of a topic found: of one segment, and of all of it. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from lakebed.base.damage import Verdict
from lakebed.keratin.partition_verification import PartitionVerification, SegmentVerification

MENDABLE = "mendable"


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


def problem_lines(topic: str, report: TopicReport) -> list[str]:
    """What is wrong with a topic, each line naming a file or the topic, then what is lost."""
    problems = [
        str(problem) if problem.path is not None else f"{topic}: {problem}"
        for problem in report.problems
    ]
    return [*problems, *(f"{topic}: {lost}" for lost in report.lost)]


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


class TopicFinding(NamedTuple):
    """What a report needs of one segment."""

    partition: int
    base_offset: int
    is_missing: bool
    records: int
    problems: tuple[TopicProblem, ...]
    lost: tuple[LostOffsets, ...]
    notes: tuple[str, ...]


class PartitionFindings(NamedTuple):
    """Of one partition, in order: what was found before its segments were read, and in these."""

    number: int
    problems: tuple[str, ...]  # fixed when it is opened, unless it is missing
    notes: tuple[str, ...]
    segments: Sequence[TopicFinding]
    is_missing: bool = False


def finding_of(
    number: int, segment: SegmentVerification, notes: Sequence[str] = ()
) -> TopicFinding:
    """`notes` are told beside those of the segment."""
    inspection = segment.inspection
    return TopicFinding(
        partition=number,
        base_offset=segment.base_offset,
        is_missing=inspection is None,
        records=inspection.record_count - inspection.control_count if inspection else 0,
        problems=tuple(_problems_of(number, segment)),
        lost=tuple(
            LostOffsets(number, one.first_offset, one.next_offset)
            for one in (inspection.damages if inspection else ())
            if one.first_offset < one.next_offset
        ),
        notes=(*segment.notes, *notes),
    )


def findings_of(number: int, found: PartitionVerification) -> PartitionFindings:
    """The same of a partition that was verified in one go."""
    known = {note for segment in found.segments for note in segment.notes}
    notes = tuple(note for note in found.notes if note not in known)
    segments = [finding_of(number, segment) for segment in found.segments]
    return PartitionFindings(number, found.problems, notes, segments, found.is_missing)


def join_topic(found: Sequence[PartitionFindings]) -> TopicReport:
    """`found` are all partitions, by number."""
    segments = [segment for partition in found for segment in partition.segments]
    return TopicReport(
        partitions=len(found),
        segments=len(segments),
        records=sum(segment.records for segment in segments),
        problems=tuple(problem for partition in found for problem in _problems(partition)),
        lost=tuple(lost for partition in found for lost in _lost(partition)),
        notes=tuple(note for partition in found for note in _notes(partition)),
    )


def _problems(found: PartitionFindings) -> Iterator[TopicProblem]:
    verdict = Verdict.CORRUPT.value if found.is_missing else MENDABLE
    for problem in found.problems:
        yield TopicProblem(found.number, None, None, 0, verdict, problem)
    for segment in found.segments:
        yield from segment.problems


def _lost(found: PartitionFindings) -> Iterator[LostOffsets]:
    """Of a segment that is missing, all up to the next one."""
    for index, segment in enumerate(found.segments):
        yield from segment.lost
        following = found.segments[index + 1 : index + 2]
        if segment.is_missing and following:
            yield LostOffsets(found.number, segment.base_offset, following[0].base_offset)


def _notes(found: PartitionFindings) -> Iterator[str]:
    yield from found.notes
    for segment in found.segments:
        yield from segment.notes


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
