"""Whether the segments of a log continue each other: offsets and record counts, one to the next.

Each file may be whole and the log still wrong: a segment that begins with the wrong count of
records, or at the wrong offset, has nothing in itself that shows it.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from typing import NamedTuple

from lakebed.aof.format import SEGMENT_HEADER, SegmentFooter, SegmentHeader, next_base_offset
from lakebed.aof.inspection import Inspection, Verdict
from lakebed.store.verification import Problem, SegmentReport


class Outline(NamedTuple):
    """What a segment says of its place in the log. Of one that is not sealed the end is not known
    for certain, nor of one whose footer is damaged: None."""

    segment_id: int
    path: str
    base_offset: int
    base_record_count: int | None  # None if it has no header yet
    next_offset: int | None  # where the next segment must begin
    next_record_count: int | None


def outline_of(report: SegmentReport) -> Outline | None:
    """None of a segment that is not of the writer's own layout, or of which nothing was read."""
    inspection = report.inspection
    if inspection is None:
        return None
    header, footer = inspection.header, inspection.footer
    if not isinstance(header, SegmentHeader | None) or not isinstance(footer, SegmentFooter | None):
        return None
    name = report.name
    return Outline(
        segment_id=name.segment_id,
        path=report.path,
        base_offset=name.base_offset,
        base_record_count=None if header is None else header.base_record_count,
        next_offset=None
        if footer is None
        else next_base_offset(name.base_offset, footer.durable_bytes),
        next_record_count=_next_record_count(inspection, header, footer),
    )


def _next_record_count(
    inspection: Inspection, header: SegmentHeader | None, footer: SegmentFooter | None
) -> int | None:
    if footer is not None:
        return footer.base_record_count + footer.record_count
    if header is None or inspection.verdict is not Verdict.WHOLE:
        return None
    return header.base_record_count + inspection.record_count


def neighbour_problems(outlines: Iterable[Outline]) -> list[Problem]:
    """Where a segment does not continue the one right before it."""
    problems: list[Problem] = []
    ordered = sorted(outlines, key=lambda one: one.segment_id)
    for one, other in pairwise(ordered):
        if other.segment_id != one.segment_id + 1:
            continue  # it is missing, or in a colder tier
        if one.next_offset is not None and one.next_offset != other.base_offset:
            what = f"begins at {other.base_offset} in the log"
            problems.append(_problem(other, "base_offset", what, str(one.next_offset)))
        counts = (one.next_record_count, other.base_record_count)
        if None not in counts and counts[0] != counts[1]:
            what = f"counts {counts[1]} records before it"
            problems.append(_problem(other, "base_record_count", what, str(counts[0])))
    return problems


def _problem(outline: Outline, field: str, what: str, expected: str) -> Problem:
    place = SEGMENT_HEADER.field(field)
    told = f"{what}, by segment {outline.segment_id - 1} it is {expected}"
    return Problem(outline.path, place.offset, 0, Verdict.CORRUPT, told)
