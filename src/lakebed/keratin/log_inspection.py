"""Judging one `.log`, all of its bytes, without changing it.

- Sealed (its length is known from the manifest): everything must be a whole record, in order, up to
  that length and not beyond. What does not match is corrupt.
- Not sealed: bytes behind the last good record with nothing valid behind them are torn, unless they
  lie below the confirmed end; bad bytes with good records behind them are corrupt. Zeros behind the
  last record are the end.
- A header that is damaged is corrupt if records follow it, and torn if none do.
- A version that is not ours is an error, never a guess.

A payload that itself holds whole records with fitting offsets cannot be told from those once its
own header is damaged.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from lakebed.base.damage import Verdict
from lakebed.base.errors import Corrupt, DataError, Torn, UnknownVersion
from lakebed.base.units import MIB
from lakebed.keratin.format import OFFSET_MAX, RecordFlags
from lakebed.keratin.log_bytes import OUT_OF_ORDER, PROBLEMS, LogBytes
from lakebed.keratin.run import Run
from lakebed.keratin.run_decoder import open_batch
from lakebed.kernels import Stop

DAMAGES_COUNT_MAX = 1000
"""Searched past at most so often: each search may look at all that is left of the file."""

_WINDOW_BYTES = 4 * MIB
_KNOWN_FLAGS = sum(map(int, RecordFlags))


class LogDamage(NamedTuple):
    """Bytes `[start, end)` that are not what they must be.

    Messages with offsets in `[first_offset, next_offset)` may have stood there.
    """

    start: int
    end: int
    first_offset: int
    next_offset: int
    problem: str


class GoodRange(NamedTuple):
    """Whole records, one behind the other, in `[start, end)` of the file."""

    start: int
    end: int
    record_count: int
    first_offset: int
    next_offset: int


@dataclass(frozen=True, kw_only=True)
class LogInspection:
    """One log file."""

    verdict: Verdict
    header_error: DataError | None
    good_ranges: tuple[GoodRange, ...]
    damages: tuple[LogDamage, ...]  # with good records behind them, or in a sealed log
    tail: LogDamage | None  # the bad stretch with nothing valid behind it, of an unsealed log
    record_count: int
    control_count: int
    batch_count: int  # batch records
    unknown_flags_count: int  # records with flags that have no name here
    timestamp_ms_max: int
    end: int  # behind the last good record
    next_offset: int  # behind its last message

    def require_whole(self, path: str) -> None:
        """`Torn` or `Corrupt`, with the first bad place, unless the file is whole."""
        if self.verdict is Verdict.WHOLE:
            return
        kind = Torn if self.verdict is Verdict.TORN else Corrupt
        if self.header_error is not None:
            raise kind(self.header_error.problem, path=path, offset=0)
        first = min([*self.damages, *([self.tail] if self.tail else [])])
        raise kind(first.problem, path=path, offset=first.start)


def inspect_log(
    log: LogBytes,
    *,
    sealed_end: int | None = None,
    next_offset: int | None = None,
    confirmed_end: int = 0,
    judged_end: int | None = None,
) -> LogInspection:
    """All that a file's bytes say.

    `sealed_end` is the length that a sealed log must have; `next_offset` what follows its last
    message, if that is known; `confirmed_end` the place up to which an unsealed one is durable.
    Nothing behind `judged_end` is looked at: somebody may be writing there.
    """
    header_error = log.header_error()
    if isinstance(header_error, UnknownVersion):
        raise header_error
    size = log.size if judged_end is None else min(log.size, judged_end)
    limit_offset = OFFSET_MAX if next_offset is None else next_offset
    survey = _Survey(log, size=size, limit_offset=limit_offset)
    survey.walk()
    damages, tail = survey.damages, survey.tail
    if sealed_end is not None:
        damages = [*damages, *_sealed_damages(survey, sealed_end, next_offset)]
        tail = None
    elif tail is None and survey.end < confirmed_end:
        problem = f"the records end below the durable end, {confirmed_end}"
        tail = LogDamage(survey.end, survey.end, survey.next_offset, survey.next_offset, problem)
    is_lost = tail is not None and tail.start < confirmed_end
    is_header_lost = header_error is not None and (
        survey.record_count > 0 or sealed_end is not None or confirmed_end > 0
    )
    verdict = Verdict.WHOLE
    if damages or is_lost or is_header_lost:
        verdict = Verdict.CORRUPT
    elif tail is not None or header_error is not None:
        verdict = Verdict.TORN
    return LogInspection(
        verdict=verdict,
        header_error=header_error,
        good_ranges=tuple(survey.ranges),
        damages=tuple(damages),
        tail=tail,
        record_count=survey.record_count,
        control_count=survey.control_count,
        batch_count=survey.batch_count,
        unknown_flags_count=survey.unknown_flags_count,
        timestamp_ms_max=survey.timestamp_ms_max,
        end=survey.end,
        next_offset=survey.next_offset,
    )


class _Survey:
    """The records of a log, around damage."""

    def __init__(self, log: LogBytes, *, size: int, limit_offset: int) -> None:
        self._log = log
        self._limit_offset = limit_offset
        self._size = size
        self.ranges: list[GoodRange] = []
        self.damages: list[LogDamage] = []
        self.tail: LogDamage | None = None
        self.record_count = self.control_count = self.batch_count = 0
        self.unknown_flags_count = self.timestamp_ms_max = 0
        self.end = min(log.records_start, self._size)
        self.next_offset = log.base_offset

    def walk(self) -> None:
        position = self.end
        while position < self._size:
            found = self._log.scan(position, self._size, bytes_max=_WINDOW_BYTES)
            problem = PROBLEMS[found] if isinstance(found, Stop) else OUT_OF_ORDER
            if isinstance(found, Run):
                good = found.in_order_count(self.next_offset, self._limit_offset)
                if good:
                    self._take(found.part(0, good))
                    position = self.end
                    continue
            following = self._resume_after(position, problem)
            if following is None:
                return
            position = following

    def _resume_after(self, position: int, problem: str) -> int | None:
        """Where good records go on behind a bad place, which is noted."""
        used_end = self._log.end_of_bytes(position, self._size)
        if used_end == position:
            return None
        following = None
        if len(self.damages) < DAMAGES_COUNT_MAX:
            following = self._log.find(
                position + 1,
                self._size,
                least_offset=self.next_offset,
                limit_offset=self._limit_offset,
            )
        else:
            problem += "; so much is damaged that the rest was not looked at"
        if following is None:
            self.tail = LogDamage(position, used_end, self.next_offset, self.next_offset, problem)
            return None
        self._note(position, following.start, int(following.offsets[0]), problem)
        return following.start

    def _take(self, run: Run) -> None:
        last = self.ranges[-1] if self.ranges else None
        if last is not None and last.end == run.start:
            self.ranges[-1] = last._replace(
                end=run.end,
                record_count=last.record_count + run.record_count,
                next_offset=run.next_offset,
            )
        else:
            self.ranges.append(
                GoodRange(
                    run.start, run.end, run.record_count, int(run.offsets[0]), run.next_offset
                )
            )
        self.record_count += run.record_count
        self.timestamp_ms_max = max(self.timestamp_ms_max, *run.timestamps_ms)
        self.end, self.next_offset = run.end, run.next_offset
        for index, flags in enumerate(run.flags):
            if flags:
                self._inspect_record(run, index, flags)

    def _inspect_record(self, run: Run, index: int, flags: int) -> None:
        self.control_count += bool(flags & RecordFlags.CONTROL)
        self.unknown_flags_count += bool(flags & ~_KNOWN_FLAGS)
        if flags & RecordFlags.BATCH:
            self.batch_count += 1
            try:
                open_batch(run, index, path=str(self._log.path))
            except Corrupt as error:
                part = run.part(index, index + 1)
                self.damages.append(
                    LogDamage(
                        part.start, part.end, int(part.offsets[0]), part.next_offset, error.problem
                    )
                )

    def _note(self, start: int, end: int, next_offset: int, problem: str) -> None:
        self.damages.append(LogDamage(start, end, self.next_offset, next_offset, problem))


def _sealed_damages(survey: _Survey, sealed_end: int, next_offset: int | None) -> list[LogDamage]:
    """What is wrong with the end of a log that must end there."""
    behind = survey.next_offset if next_offset is None else max(next_offset, survey.next_offset)
    if survey.tail is not None:
        return [survey.tail._replace(next_offset=behind)]
    if survey.end < sealed_end:
        problem = f"the records end below the end of the log, {sealed_end}"
        end = max(survey.end, sealed_end)
        return [LogDamage(survey.end, end, survey.next_offset, behind, problem)]
    if survey.end > sealed_end:
        problem = f"records behind the end of the log, {sealed_end}"
        return [LogDamage(sealed_end, survey.end, behind, behind, problem)]
    return []
