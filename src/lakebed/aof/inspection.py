"""What is known of a segment file after a look at all of it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from lakebed.aof.format import SegmentFooter, SegmentHeader
from lakebed.aof.interchange import InterchangeFooter, InterchangeHeader
from lakebed.aof.survey import Damage, GoodRange
from lakebed.base.damage import Verdict
from lakebed.base.errors import Corrupt, Torn
from lakebed.base.files import PathLike

__all__ = ["Inspection", "SegmentLayout", "Verdict"]


class SegmentLayout(Enum):
    """Which of the layouts a file has, by its magic."""

    RUNTIME = "runtime"
    INTERCHANGE = "interchange"
    EMPTY = "empty"  # nothing but zeros, or nothing: activated, no record yet
    UNKNOWN = "unknown"


@dataclass(frozen=True, kw_only=True)
class Inspection:
    """One segment file. `end`, counts and timestamps are of the records before any damage."""

    layout: SegmentLayout
    verdict: Verdict
    is_sealed: bool
    header: SegmentHeader | InterchangeHeader | None
    footer: SegmentFooter | InterchangeFooter | None
    footer_problem: str | None  # what stands in the footer's place, if it is no footer
    record_count: int
    end: int  # behind the last good record from the start
    last_offset: int | None  # where that record begins
    last_timestamp_ns: int  # of that record
    max_timestamp_ns: int
    payload_crc64: int  # over [records' start, end)
    good_ranges: tuple[GoodRange, ...]
    damages: tuple[Damage, ...]  # bad stretches with good records behind them
    tail: Damage | None  # the bad stretch with nothing valid behind it
    problems: tuple[Damage, ...]  # fields and checksums that do not match, at their place
    notes: tuple[str, ...]  # oddities that no rule forbids

    def first_damage(self) -> Damage | None:
        """The bad place that stands first in the file."""
        found = [*self.damages, *self.problems, *([self.tail] if self.tail else [])]
        return min(found, default=None)

    def require_whole(self, path: PathLike) -> None:
        """`Torn` or `Corrupt`, with the first bad place, unless the file is whole."""
        damage = self.first_damage()
        if self.verdict is Verdict.WHOLE:
            return
        kind = Torn if self.verdict is Verdict.TORN else Corrupt
        problem = damage.problem if damage else self.footer_problem or "damaged"
        raise kind(problem, path=path, offset=damage.offset if damage else None)
