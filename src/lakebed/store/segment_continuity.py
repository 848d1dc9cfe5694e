"""Checks that each segment of a log continues the segment before it, in offsets and record counts.

A log can be wrong although all its files are whole: whether a segment begins with the right offset
and record count can only be checked by comparing it with the segment before it.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from typing import NamedTuple

from lakebed.aof.format import SEGMENT_HEADER, SegmentFooter, SegmentHeader, next_base_offset
from lakebed.aof.inspection import Inspection, Verdict
from lakebed.store.verification import Problem, SegmentReport


class Outline(NamedTuple):
    """Where a segment begins and ends in the log, according to its name, header and footer."""

    segment_id: int
    path: str
    base_offset: int
    base_record_count: int | None  # records of the log before it; None without a good header
    next_offset: int | None  # base offset that the next segment must have; None without a footer
    next_record_count: int | None  # records before the next segment; None if not known


def outline_of(report: SegmentReport) -> Outline | None:
    """Returns a segment's outline; None if the segment was not read.

    Also returns None for an interchange segment, whose header has no record count.
    """
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
    """Returns the problems of segments that do not continue the segment right before them.

    A segment is compared only if `outlines` also has the segment with the number before its own.
    """
    problems: list[Problem] = []
    ordered = sorted(outlines, key=lambda outline: outline.segment_id)
    for previous, outline in pairwise(ordered):
        if outline.segment_id != previous.segment_id + 1:
            continue  # the segments between them are missing, damaged, or in a colder tier
        if previous.next_offset is not None and previous.next_offset != outline.base_offset:
            what = f"the segment begins at offset {outline.base_offset} of the log"
            problems.append(_problem(outline, "base_offset", what, str(previous.next_offset)))
        counts = (previous.next_record_count, outline.base_record_count)
        if None not in counts and counts[0] != counts[1]:
            what = f"the segment counts {counts[1]} records before it"
            problems.append(_problem(outline, "base_record_count", what, str(counts[0])))
    return problems


def _problem(outline: Outline, field: str, what: str, expected: str) -> Problem:
    place = SEGMENT_HEADER.field(field)
    text = f"{what}, but {expected} is expected after segment {outline.segment_id - 1}"
    return Problem(outline.path, place.offset, 0, Verdict.CORRUPT, text)
