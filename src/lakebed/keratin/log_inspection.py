"""Inspects every byte of one `.log`, and decides whether the log is whole, torn or corrupt.

The log is not changed. The *confirmed end* of an unsealed log is the position up to which it is
known to be durable.

- A sealed log, whose length and last offset are known from the manifest, must consist of whole
  records in order, which must end exactly at that length and offset. Otherwise it is corrupt.
- In an unsealed log, bad bytes followed by good records are corrupt. Bad bytes with no good record
  after them are torn, unless they begin below the confirmed end; then they are corrupt. Zeros after
  the last record are the end of the log, which is corrupt if it ends below the confirmed end.
- A batch record that cannot be decoded is corrupt, even if the checksum of its record is right. If
  only its codec is not installed, `CodecMissing` is raised.
- A damaged header is corrupt if records follow it, if the log is sealed, or if its confirmed end is
  not 0; otherwise it is torn.
- A header or record of an unsupported version raises `UnknownVersion`.

Limitation: if the header of a record is damaged, and its payload itself contains whole records with
plausible offsets, those are mistaken for records of the log.
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
"""How many damaged places to search past; each search may read the file to its end."""

_WINDOW_BYTES = 4 * MIB
_KNOWN_FLAGS = sum(map(int, RecordFlags))


class LogDamage(NamedTuple):
    """Damaged bytes `[start, end)` of a log.

    Messages with offsets in `[first_offset, next_offset)` may be lost.
    """

    start: int
    end: int
    first_offset: int
    next_offset: int
    problem: str

    def __str__(self) -> str:
        first, last = self.first_offset, self.next_offset - 1
        lost = ""
        if first <= last:
            which = f"offset {first}" if first == last else f"offsets {first} to {last}"
            lost = f"; {which} may be lost"
        return f"at byte {self.start}: {self.problem}{lost}"

    def since(self, start_offset: int) -> LogDamage:
        """Returns this damage without the messages before `start_offset`."""
        first_offset = min(max(self.first_offset, start_offset), self.next_offset)
        return self._replace(first_offset=first_offset)


class GoodRange(NamedTuple):
    """Contiguous whole records in bytes `[start, end)` of the file."""

    start: int
    end: int
    record_count: int
    first_offset: int
    next_offset: int


@dataclass(frozen=True, kw_only=True)
class LogInspection:
    """The result of inspecting one log file."""

    verdict: Verdict
    header_error: DataError | None
    good_ranges: tuple[GoodRange, ...]
    # Bad bytes in a sealed log or before good records, and batch records that cannot be decoded.
    damages: tuple[LogDamage, ...]
    tail: LogDamage | None  # bad bytes of an unsealed log with no good record after them
    record_count: int
    control_count: int
    batch_count: int  # batch records
    unknown_flags_count: int  # records with flags unknown to this version
    timestamp_ms_max: int
    end: int  # the end of the last good record
    next_offset: int  # the offset after the last message of that record

    def require_whole(self, path: str) -> None:
        """Raises `Torn` or `Corrupt`, with the first bad position, unless the file is whole."""
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
    """Inspects all bytes of a log.

    `sealed_end` is the length that a sealed log must have, and None for an unsealed log.
    `next_offset` is the offset after the log's last message, if known. `confirmed_end` is the
    position up to which an unsealed log is known to be durable. Bytes from `judged_end` on are
    ignored, because a writer may be writing there. Raises `UnknownVersion` at a header or record of
    an unsupported version.
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
        problem = f"the records end before the durable end at byte {confirmed_end}"
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
    """Walks the records of a log, continuing after damage, and collects good ranges and damage."""

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
            scanned = self._log.scan(position, self._size, bytes_max=_WINDOW_BYTES)
            problem = PROBLEMS[scanned] if isinstance(scanned, Stop) else OUT_OF_ORDER
            if isinstance(scanned, Run):
                good_count = scanned.in_order_count(self.next_offset, self._limit_offset)
                if good_count:
                    self._take(scanned.part(0, good_count))
                    position = self.end
                    continue
            next_position = self._resume_after(position, problem)
            if next_position is None:
                return
            position = next_position

    def _resume_after(self, position: int, problem: str) -> int | None:
        """Notes damage at `position`; returns the position of the next good record, or None.

        Notes nothing if only zeros follow, because the log ends there.
        """
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
            problem += "; the log was not inspected further because it has too many damaged places"
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
    """Returns the damage, if any, at the end of a log that must end exactly at `sealed_end`."""
    expected_offset = (
        survey.next_offset if next_offset is None else max(next_offset, survey.next_offset)
    )
    if survey.tail is not None:
        return [survey.tail._replace(next_offset=expected_offset)]
    if survey.end < sealed_end:
        problem = f"the records end before the end of the sealed log at byte {sealed_end}"
        end = max(survey.end, sealed_end)
        return [LogDamage(survey.end, end, survey.next_offset, expected_offset, problem)]
    if survey.end > sealed_end:
        problem = f"there are records after the end of the sealed log at byte {sealed_end}"
        return [LogDamage(sealed_end, survey.end, expected_offset, expected_offset, problem)]
    if survey.next_offset < expected_offset:
        problem = f"the records end before the last offset of the sealed log, {expected_offset - 1}"
        return [LogDamage(survey.end, survey.end, survey.next_offset, expected_offset, problem)]
    return []
