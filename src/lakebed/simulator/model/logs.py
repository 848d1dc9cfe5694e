"""What a log must hold.

- What was flushed, or seen by a reader, is there: in order, once, unchanged.
- What was appended and not flushed is there as a prefix, or not; after the next opening it is
  decided, and what is not there then never appears.
- Only retention removes records: the oldest, as the settings allow. With an archive they are there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from lakebed.simulator.violation import Promise, Violation, require

AUTOMATIC_TOLERANCE_NS = 2 * 10**9
"""Automatic timestamps follow the wall clock, but for steps back of a second."""


class ModelRecord(NamedTuple):
    record_id: int
    payload: bytes
    timestamp_ns: int | None  # None: given by the clock
    appended_ns: tuple[int, int]  # by the wall clock: when the call began, and when it ended


class Seen(NamedTuple):
    """A record as a reader saw it."""

    record_id: int
    payload: bytes
    timestamp_ns: int


class Pinned(NamedTuple):
    """Records from that id on must not be removed before the pin expires."""

    record_id: int
    expires_ms: int


@dataclass
class RetentionRule:
    """What the settings allow to be removed."""

    count_max: int = 0
    bytes_max: int = 0
    age_ms_max: int = 0
    archive: bool = False

    @property
    def is_any(self) -> bool:
        return bool(self.count_max or self.bytes_max or self.age_ms_max)


@dataclass
class LogModel:
    """One log of a store."""

    name: str
    records: list[ModelRecord] = field(default_factory=list)  # in the order they were appended
    durable_count: int = 0  # so many of them must be there
    first: int = 0  # so many of them were removed
    rules: list[RetentionRule] = field(default_factory=list)  # in force since the last look
    damaged: set[str] = field(default_factory=set)  # files; then reads may fail, and skip
    lost: set[int] = field(default_factory=set)  # records that damage may have taken
    may_be_gone: bool = False  # all of it is damaged
    unarchived_first: int = 0  # what was removed before it may be in no archive
    is_unopenable: bool = False  # refused for a reason that the run knows
    in_flight: int = 0
    pins: dict[str, Pinned] = field(default_factory=dict)
    wall_ms: int = 0  # the latest that the clock has shown

    def appended(self, records: Sequence[ModelRecord]) -> None:
        for record in records:
            if self.records:
                last = self.records[-1].record_id
                what = f"log {self.name}: id {record.record_id:x} given out after {last:x}"
                require(record.record_id > last or self.in_flight > 1, Promise.ORDER, what)
            self.records.append(record)
        if self.in_flight > 1:
            self.records.sort()
            ids = [record.record_id for record in self.records]
            what = f"log {self.name}: an id was given out twice"
            require(len(set(ids)) == len(ids), Promise.ONCE, what)

    def flushed(self, record_id: int | None = None) -> None:
        """Everything up to that record is durable; by default all that was appended so far."""
        count = len(self.records)
        if record_id is not None:
            count = sum(record.record_id <= record_id for record in self.records)
        self.durable_count = max(self.durable_count, count)

    def opened(self, durable_end: int) -> None:
        """The log was opened again: what is before its durable end is there, the rest is gone."""
        count = sum(record.record_id < durable_end for record in self.records)
        if not self.damaged:
            what = (
                f"log {self.name}: {self.durable_count - count} acknowledged records are gone "
                "after it was opened again"
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
        """What a reader saw of the whole log, from its oldest record on.

        `durable_count` is how much was durable before it began to read.
        """
        by_id = {record.record_id: index for index, record in enumerate(self.records)}
        previous = -1
        for record in seen:
            index = by_id.get(record.record_id)
            if index is None:
                what = f"log {self.name}: record {record.record_id:x} was never appended"
                raise Violation(Promise.NOT_INVENTED, what)
            self._compare(self.records[index], record)
            what = f"log {self.name}: record {record.record_id:x} comes out of order, or twice"
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
        """The oldest record that can be read is that one."""
        if first > self.first and not self.damaged:
            what = (
                f"log {self.name}: {first - self.first} records are gone, which no setting allows"
            )
            require(any(rule.is_any for rule in self.rules), Promise.REMOVAL, what)
        self._check_pins(first)
        if not all(rule.archive for rule in self.rules):
            self.unarchived_first = max(self.unarchived_first, first)
        self.first = first  # a crash may bring back the segment that was being removed

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
            f", the first is {missing[0].record_id:x}" if missing else ""
        )
        require(not missing or bool(self.damaged), Promise.KEPT, what)

    def _compare(self, record: ModelRecord, seen: Seen) -> None:
        where = f"log {self.name}: record {seen.record_id:x}"
        promise = Promise.DAMAGE_NEVER_SERVED if self.damaged else Promise.KEPT
        require(seen.payload == record.payload, promise, f"{where} has other bytes")
        if record.timestamp_ns is not None:
            what = f"{where} has another timestamp"
            require(seen.timestamp_ns == record.timestamp_ns, promise, what)
            return
        what = (
            f"{where} got {seen.timestamp_ns} as its automatic timestamp when the clock showed "
            f"{record.appended_ns[0]}"
        )
        begun, ended = record.appended_ns
        slack = AUTOMATIC_TOLERANCE_NS
        require(begun - slack <= seen.timestamp_ns <= ended + slack, Promise.TIMES, what)
