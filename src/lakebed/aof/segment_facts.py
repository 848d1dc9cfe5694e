"""What an inspection found in a segment file, before the inspection reaches a verdict."""

from __future__ import annotations

from typing import NamedTuple

from lakebed.aof.format import SegmentFooter, SegmentHeader
from lakebed.aof.inspection import SegmentLayout
from lakebed.aof.interchange import InterchangeFooter, InterchangeHeader
from lakebed.aof.survey import Damage, Survey
from lakebed.base.layout import Layout, Record

_NO_RECORDS = Survey((), (), None)


class SegmentFacts(NamedTuple):
    """What an inspection found in a segment file of either layout.

    `problems` are wrong fields of the header and footer, and contradictions between the parts of
    the file; damaged records are in `records`.
    """

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
    """Returns a `Damage` for each field of `record` that differs from its `expected` value.

    `start` is the record's file offset.
    """
    problems = []
    for field in layout.fields:
        value = getattr(record, field.name)
        if field.name in expected and value != expected[field.name]:
            problem = f"{field.name} is {value}, expected {expected[field.name]}"
            problems.append(Damage(start + field.offset, field.size, problem))
    return tuple(problems)
