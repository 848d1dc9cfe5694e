"""The findings of a topic's verification, per segment and for the whole topic. No I/O."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from lakebed.base.damage import Verdict
from lakebed.keratin.partition_verification import PartitionVerification, SegmentVerification

MENDABLE = "mendable"


class TopicProblem(NamedTuple):
    """A problem of a topic: of a partition, of a file, or of bytes `[offset, offset + length)`."""

    partition: int
    path: str | None
    offset: int | None
    length: int
    verdict: str  # torn, corrupt, or mendable (opening the topic fixes it, and nothing is lost)
    problem: str

    def __str__(self) -> str:
        if self.path is None:
            return f"partition {self.partition}: {self.verdict}: {self.problem}"
        place = "" if self.offset is None else f"at byte {self.offset}: "
        return f"{self.path}: {place}{self.verdict}: {self.problem}"


def problem_lines(topic: str, report: TopicReport) -> list[str]:
    """Returns one line for each problem, then one for each range of lost offsets."""
    problems = [
        str(problem) if problem.path is not None else f"{topic}: {problem}"
        for problem in report.problems
    ]
    return [*problems, *(f"{topic}: {lost}" for lost in report.lost)]


class LostOffsets(NamedTuple):
    """Offsets `[start, end)` of a partition at which messages are lost.

    There need not have been a message at each of these offsets.
    """

    partition: int
    start: int
    end: int

    def __str__(self) -> str:
        last = self.end - 1
        which = f"offset {last} is" if self.start == last else f"offsets {self.start} to {last} are"
        return f"partition {self.partition}: {which} lost"


class TopicReport(NamedTuple):
    """The result of verifying a topic."""

    partitions: int
    segments: int
    records: int
    problems: tuple[TopicProblem, ...]
    lost: tuple[LostOffsets, ...]
    notes: tuple[str, ...]  # unusual, but not wrong


class TopicFinding(NamedTuple):
    """The result of checking one segment."""

    partition: int
    base_offset: int
    is_missing: bool
    records: int
    problems: tuple[TopicProblem, ...]
    lost: tuple[LostOffsets, ...]
    notes: tuple[str, ...]


class PartitionFindings(NamedTuple):
    """The problems found when one partition was listed, and the findings of its segments."""

    number: int
    problems: tuple[str, ...]  # fixed when the topic is opened, unless the partition is missing
    notes: tuple[str, ...]
    segments: Sequence[TopicFinding]
    next_offset: int = 0  # as far as it is known without the segments
    is_missing: bool = False


def finding_of(
    number: int, segment: SegmentVerification, notes: Sequence[str] = ()
) -> TopicFinding:
    """Turns the verification of a segment into a finding; adds `notes` to the segment's own."""
    inspection = segment.inspection
    return TopicFinding(
        partition=number,
        base_offset=segment.base_offset,
        is_missing=inspection is None,
        records=inspection.record_count - inspection.control_count if inspection else 0,
        problems=tuple(_problems_of(number, segment)),
        lost=tuple(
            LostOffsets(number, damage.first_offset, damage.next_offset)
            for damage in (inspection.damages if inspection else ())
            if damage.first_offset < damage.next_offset
        ),
        notes=(*segment.notes, *notes),
    )


def findings_of(number: int, verification: PartitionVerification) -> PartitionFindings:
    """Turns the verification of a whole partition into findings."""
    of_segments = {note for segment in verification.segments for note in segment.notes}
    notes = tuple(note for note in verification.notes if note not in of_segments)
    segments = [finding_of(number, segment) for segment in verification.segments]
    return PartitionFindings(
        number,
        verification.problems,
        notes,
        segments,
        verification.next_offset,
        verification.is_missing,
    )


def join_topic(partitions: Sequence[PartitionFindings]) -> TopicReport:
    """Combines the findings of all partitions, ordered by partition number, into one report."""
    segments = [segment for partition in partitions for segment in partition.segments]
    return TopicReport(
        partitions=len(partitions),
        segments=len(segments),
        records=sum(segment.records for segment in segments),
        problems=tuple(problem for partition in partitions for problem in _problems(partition)),
        lost=tuple(lost for partition in partitions for lost in _lost(partition)),
        notes=tuple(note for partition in partitions for note in _notes(partition)),
    )


def _problems(findings: PartitionFindings) -> Iterator[TopicProblem]:
    verdict = Verdict.CORRUPT.value if findings.is_missing else MENDABLE
    for problem in findings.problems:
        yield TopicProblem(findings.number, None, None, 0, verdict, problem)
    for segment in findings.segments:
        yield from segment.problems


def _lost(findings: PartitionFindings) -> Iterator[LostOffsets]:
    """Yields the lost offsets of a partition.

    If a segment is missing, all offsets up to the next segment, or to the end of the partition, are
    lost.
    """
    for index, segment in enumerate(findings.segments):
        yield from segment.lost
        following = [later.base_offset for later in findings.segments[index + 1 :]]
        end = following[0] if following else findings.next_offset
        if segment.is_missing and segment.base_offset < end:
            yield LostOffsets(findings.number, segment.base_offset, end)


def _notes(findings: PartitionFindings) -> Iterator[str]:
    yield from findings.notes
    for segment in findings.segments:
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
