"""The result of inspecting a whole segment file."""

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
    """The layout of a segment file, recognised by its magic number.

    If that is damaged, the layout is recognised by the footer or the first record.
    """

    RUNTIME = "runtime"
    INTERCHANGE = "interchange"
    EMPTY = "empty"  # no bytes or only zeros: no record was written yet
    UNKNOWN = "unknown"


@dataclass(frozen=True, kw_only=True)
class Inspection:
    """The result of inspecting one segment file.

    `end`, `record_count` and the timestamps cover only the records before the first damage.
    """

    layout: SegmentLayout
    verdict: Verdict
    is_sealed: bool
    header: SegmentHeader | InterchangeHeader | None
    footer: SegmentFooter | InterchangeFooter | None
    footer_problem: str | None  # why the bytes in the footer's place are not a footer
    record_count: int
    end: int  # the end of the last good record before any damage
    last_offset: int | None  # where that record begins
    last_timestamp_ns: int  # of that record
    max_timestamp_ns: int
    payload_crc64: int  # over [records' start, end)
    good_ranges: tuple[GoodRange, ...]
    damages: tuple[Damage, ...]  # bad ranges followed by good records
    tail: Damage | None  # the bad range at the end, with no valid record after it
    problems: tuple[Damage, ...]  # fields and checksums that do not match, with their offsets
    notes: tuple[str, ...]  # oddities that no rule forbids

    def first_damage(self) -> Damage | None:
        """Returns the `Damage` with the lowest offset in the file, or None if there is none."""
        damages = [*self.damages, *self.problems, *([self.tail] if self.tail else [])]
        return min(damages, default=None)

    def require_whole(self, path: PathLike) -> None:
        """Raises `Torn` or `Corrupt`, as `verdict` states, unless the file is whole.

        The error has the offset of the first damage, if it is known.
        """
        damage = self.first_damage()
        if self.verdict is Verdict.WHOLE:
            return
        kind = Torn if self.verdict is Verdict.TORN else Corrupt
        problem = damage.problem if damage else self.footer_problem or "the segment is damaged"
        raise kind(problem, path=path, offset=damage.offset if damage else None)
