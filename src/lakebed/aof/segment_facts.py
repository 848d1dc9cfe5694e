"""The findings of inspecting a segment, before a verdict is made from them."""

from __future__ import annotations

from typing import NamedTuple

from lakebed.aof.format import SegmentFooter, SegmentHeader
from lakebed.aof.inspection import SegmentLayout
from lakebed.aof.interchange import InterchangeFooter, InterchangeHeader
from lakebed.aof.survey import Damage, Survey
from lakebed.base.layout import Layout, Record

_NO_RECORDS = Survey((), (), None)


class SegmentFacts(NamedTuple):
    """Findings about a segment of either layout. `problems` are fields that do not match."""

    layout: SegmentLayout
    header: SegmentHeader | InterchangeHeader | None = None
    footer: SegmentFooter | InterchangeFooter | None = None
    footer_problem: str | None = None
    is_sealed: bool = False
    records: Survey = _NO_RECORDS
    problems: tuple[Damage, ...] = ()
    notes: tuple[str, ...] = ()


def mismatches(
    layout: Layout[Record], record: Record, expected: dict[str, object], *, start: int
) -> tuple[Damage, ...]:
    """Returns one damage per field that is not as expected. The record begins at `start`."""
    problems = []
    for field in layout.fields:
        value = getattr(record, field.name)
        if field.name in expected and value != expected[field.name]:
            problem = f"{field.name} is {value}, expected {expected[field.name]}"
            problems.append(Damage(start + field.offset, field.size, problem))
    return tuple(problems)
