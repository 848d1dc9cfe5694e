"""The expected contents of a log.

- Every record that was flushed or returned to a reader exists exactly once, in order and unchanged.
- Of the records that were appended but not flushed, the log keeps a prefix, possibly an empty one.
  Reopening the log decides how many; the others must never appear later.
- Only retention removes records, oldest first, as the settings allow. If there is an archive,
  removed records are in it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from lakebed.simulator.violation import Promise, Violation, require

AUTOMATIC_TOLERANCE_NS = 2 * 10**9
"""How far a timestamp that the log set itself may differ from the wall clock."""


class ModelRecord(NamedTuple):
    record_id: int
    payload: bytes
    timestamp_ns: int | None  # None: set by the log from the clock
    appended_ns: tuple[int, int]  # wall-clock times of the start and end of the call


class Seen(NamedTuple):
    """A record as a reader returned it."""

    record_id: int
    payload: bytes
    timestamp_ns: int


class Pinned(NamedTuple):
    """A pin: records from `record_id` on must not be removed before `expires_ms`."""

    record_id: int
    expires_ms: int


@dataclass
class RetentionRule:
    """The retention limits of a log; 0 means no limit."""

    count_max: int = 0
    bytes_max: int = 0
    age_ms_max: int = 0
    archive: bool = False

    @property
    def is_any(self) -> bool:
        return bool(self.count_max or self.bytes_max or self.age_ms_max)


@dataclass
class LogModel:
    """The expected contents of one log."""

    name: str
    records: list[ModelRecord] = field(default_factory=list)  # in the order they were appended
    durable_count: int = 0  # the number of records, including removed ones, that are durable
    first: int = 0  # the number of removed records
    rules: list[RetentionRule] = field(default_factory=list)  # may have applied since the check
    damaged: set[str] = field(
        default_factory=set
    )  # damaged files; if there are any, reads may fail and skip records
    lost: set[int] = field(default_factory=set)  # records that damage may have destroyed
    may_be_gone: bool = False  # the whole log is damaged
    unarchived_first: int = 0  # removed records before this index may be missing in the archive
    is_unopenable: bool = False  # opening is refused for a known reason
    in_flight: int = 0
    pins: dict[str, Pinned] = field(default_factory=dict)
    wall_ms: int = 0  # the latest time that the clock has shown

    def appended(self, records: Sequence[ModelRecord]) -> None:
        for record in records:
            if self.records:
                last = self.records[-1].record_id
                what = (
                    f"log {self.name}: record id {record.record_id:x} was assigned after {last:x}"
                )
                require(record.record_id > last or self.in_flight > 1, Promise.ORDER, what)
            self.records.append(record)
        if self.in_flight > 1:
            self.records.sort()
            ids = [record.record_id for record in self.records]
            what = f"log {self.name}: a record id was assigned twice"
            require(len(set(ids)) == len(ids), Promise.ONCE, what)

    def flushed(self, record_id: int | None = None) -> None:
        """Marks all records up to `record_id`, by default all appended records, as durable."""
        count = len(self.records)
        if record_id is not None:
            count = sum(record.record_id <= record_id for record in self.records)
        self.durable_count = max(self.durable_count, count)

    def opened(self, durable_end: int) -> None:
        """Updates the model after the log was opened: records from `durable_end` on do not exist.

        Checks that no durable record is missing.
        """
        count = sum(record.record_id < durable_end for record in self.records)
        if not self.damaged:
            what = (
                f"log {self.name}: {self.durable_count - count} acknowledged records are missing "
                "after it was reopened"
            )
            require(count >= self.durable_count, Promise.KEPT, what)
        del self.records[count:]
        self.durable_count = min(count, len(self.records))

    def read(
        self,
        seen: Sequence[Seen],
        *,
        is_partial: bool = False,
        has_gaps: bool = False,
        durable_count: int = 0,
    ) -> None:
        """Checks the records that a reader returned, by default those of the whole log.

        With `is_partial`, `seen` is a part of the log; with `has_gaps`, records may be missing
        between those in `seen`. `durable_count` is the number of durable records when the reader
        started.
        """
        by_id = {record.record_id: index for index, record in enumerate(self.records)}
        previous = -1
        for record in seen:
            index = by_id.get(record.record_id)
            if index is None:
                what = f"log {self.name}: record {record.record_id:x} was never appended"
                raise Violation(Promise.NOT_INVENTED, what)
            self._compare(self.records[index], record)
            what = (
                f"log {self.name}: record {record.record_id:x} was returned twice or out of order"
            )
            require(index > previous, Promise.ORDER, what)
            if previous >= 0 and index != previous + 1 and not has_gaps:
                self._require_lost(previous + 1, index)
            previous = index
        if not is_partial:
            self._ends(seen, by_id, previous, durable_count)

    def _ends(
        self, seen: Sequence[Seen], by_id: dict[int, int], last: int, durable_count: int
    ) -> None:
        if seen:
            self.removed(by_id[seen[0].record_id])
        elif durable_count > self.first:
            self._require_lost(self.first, durable_count)
        if last + 1 < durable_count and seen:
            self._require_lost(last + 1, durable_count)
        self.durable_count = max(self.durable_count, last + 1)

    def removed(self, first: int) -> None:
        """Sets the index of the oldest readable record, and checks that older records may be
        missing.
        """
        if first > self.first and not self.damaged:
            what = (
                f"log {self.name}: no setting allows removing {first - self.first} missing records"
            )
            require(any(rule.is_any for rule in self.rules), Promise.REMOVAL, what)
        self._check_pins(first)
        if not all(rule.archive for rule in self.rules):
            self.unarchived_first = max(self.unarchived_first, first)
        self.rules = self.rules[-2:]
        self.first = first  # may be lower: a crash can undo a removal

    def _check_pins(self, first: int) -> None:
        for pin in self.pins.values():
            pinned = [
                record
                for record in self.records[self.first : first]
                if record.record_id >= pin.record_id
            ]
            is_due = self.wall_ms < pin.expires_ms and not self.damaged
            what = f"log {self.name}: {len(pinned)} records were removed while they were pinned"
            require(not (is_due and pinned), Promise.REMOVAL, what)

    def _require_lost(self, start: int, end: int) -> None:
        missing = [
            record for record in self.records[start:end] if record.record_id not in self.lost
        ]
        what = f"log {self.name}: {len(missing)} acknowledged records are missing" + (
            f", the first of them {missing[0].record_id:x}" if missing else ""
        )
        require(not missing or bool(self.damaged), Promise.KEPT, what)

    def _compare(self, record: ModelRecord, seen: Seen) -> None:
        where = f"log {self.name}: record {seen.record_id:x}"
        promise = Promise.DAMAGE_NEVER_SERVED if self.damaged else Promise.KEPT
        require(
            seen.payload == record.payload, promise, f"{where} was read with a different payload"
        )
        if record.timestamp_ns is not None:
            what = f"{where} was read with a different timestamp"
            require(seen.timestamp_ns == record.timestamp_ns, promise, what)
            return
        what = (
            f"{where} has the automatic timestamp {seen.timestamp_ns}, but the clock showed "
            f"{record.appended_ns[0]} when it was appended"
        )
        begun, ended = record.appended_ns
        slack = AUTOMATIC_TOLERANCE_NS
        require(begun - slack <= seen.timestamp_ns <= ended + slack, Promise.TIMES, what)
