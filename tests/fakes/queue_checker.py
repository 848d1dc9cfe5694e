"""What a history of producers and consumers proves: lost, duplicated, reordered, stale, unexpected.

A history is what clients wrote down: each call before it was made (`invoke`) and when it came back
(`ok`; `fail` if it was refused; `info` if nobody knows what it did). A call that never came back is
as one of `info`. At its end somebody leased and acked everything that was left.

Epochs order the leases of a partition, so that most rules need no clock:

- *lost*: an acknowledged message that nobody acked, so it was never delivered, or dropped since;
- *duplicated*: leased under a later epoch than that of an ack that was answered, or appended twice;
- *reordered*: a first delivery before one of a lower offset, or two messages of a producer that
  stand in the log in another order than they were sent in;
- *stale*: an ack under an epoch that was over, or two who held a message at one time;
- *unexpected*: a message that nobody sent, or another one than was there before.

Only what is certain is told. To ack what is settled is no mistake, under whatever epoch.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import NamedTuple


class Held(NamedTuple):
    """A message, as far as the call knows it."""

    partition: int
    offset: int = -1
    value: str = ""  # <producer>:<number>
    epoch: int = 0
    delivery_count: int = 0
    deadline_ms: float = 0  # of the clock that the entries have


class Entry(NamedTuple):
    """A line of a history."""

    at_ms: float
    kind: str  # invoke, ok, fail or info
    operation: str  # produce, lease, ack, nack or extend
    call: str  # which one, over all lives
    messages: tuple[Held, ...] = ()


class Problem(NamedTuple):
    kind: str
    what: str
    is_epoch: bool = False  # that came again


class Call(NamedTuple):
    """From its beginning to its end, if it has one."""

    invoked: Entry
    ended: Entry | None

    @property
    def is_ok(self) -> bool:
        return self.ended is not None and self.ended.kind == "ok"

    @property
    def is_refused(self) -> bool:
        return self.ended is not None and self.ended.kind == "fail"

    @property
    def answer(self) -> tuple[Held, ...]:
        return self.ended.messages if self.is_ok and self.ended is not None else ()

    @property
    def ended_ms(self) -> float:
        assert self.ended is not None
        return self.ended.at_ms


class Delivery(NamedTuple):
    call: Call
    held: Held


Place = tuple[int, int]
"""Partition and offset."""


def encode(entry: Entry) -> bytes:
    return json.dumps(entry).encode() + b"\n"


def decode(data: bytes) -> Iterator[Entry]:
    """The entries of a file; a last line that was cut by a kill is left out."""
    for line in data.split(b"\n")[:-1]:
        at_ms, kind, operation, call, messages = json.loads(line)
        yield Entry(at_ms, kind, operation, call, tuple(Held(*held) for held in messages))


def check(
    entries: Iterable[Entry], *, elsewhere: Iterable[str] = (), margin_ms: float = 0
) -> list[Problem]:
    """What is wrong. `elsewhere` are messages that ended as dead letters.

    `margin_ms` is how far the clock of the entries may be from that of the deadlines.
    """
    elsewhere = set(elsewhere)
    calls = list(_calls(entries))
    by_operation: dict[str, list[Call]] = defaultdict(list)
    for call in calls:
        by_operation[call.invoked.operation].append(call)
    places: dict[Place, list[Delivery]] = defaultdict(list)
    for call in by_operation["lease"]:
        for held in call.answer:
            places[held.partition, held.offset].append(Delivery(call, held))
    for deliveries in places.values():
        deliveries.sort(key=lambda one: one.held.epoch)
    return [
        *_unexpected(by_operation["produce"], places),
        *_lost(by_operation["produce"], by_operation["ack"], places, elsewhere),
        *_settled_and_leased(by_operation["ack"], places, elsewhere),
        *_appended_twice(places),
        *_reordered(places),
        *_producers_reordered(places),
        *_epochs_again(by_operation["lease"]),
        *_held_by_two(calls, places, margin_ms),
    ]


def _calls(entries: Iterable[Entry]) -> Iterator[Call]:
    begun: dict[str, Entry] = {}
    for entry in entries:
        if entry.kind == "invoke":
            assert entry.call not in begun, "the history has a call twice"
            begun[entry.call] = entry
        else:
            yield Call(begun.pop(entry.call), entry)
    for entry in begun.values():
        yield Call(entry, None)


def _unexpected(produces: list[Call], places: dict[Place, list[Delivery]]) -> Iterator[Problem]:
    sent = {held.value for call in produces for held in call.invoked.messages}
    told = {(h.partition, h.offset): h.value for call in produces for h in call.answer}
    for place, deliveries in places.items():
        expected = told.get(place, deliveries[0].held.value)
        for _, held in deliveries:
            if held.value not in sent:
                yield Problem("unexpected", f"{held}: nobody sent it")
            elif held.value != expected:
                yield Problem("unexpected", f"{held}: {expected} was there")


def _lost(
    produces: list[Call],
    acks: list[Call],
    places: dict[Place, list[Delivery]],
    elsewhere: set[str],
) -> Iterator[Problem]:
    asked = {(held.partition, held.offset) for call in acks for held in call.invoked.messages}
    for call in produces:
        for held in call.answer:
            place = held.partition, held.offset
            if place in asked or held.value in elsewhere:
                continue
            how = "delivered and dropped" if place in places else "never delivered"
            yield Problem("lost", f"{held.value} at {place}: acknowledged, {how}")


def _settled_and_leased(
    acks: list[Call], places: dict[Place, list[Delivery]], elsewhere: set[str]
) -> Iterator[Problem]:
    for ack in acks:
        for settled in ack.invoked.messages if ack.is_ok else ():
            for lease, held in places.get((settled.partition, settled.offset), ()):
                is_later = held.epoch > settled.epoch and held.value not in elsewhere
                if not is_later or _was_settled_by_another(acks, held, ack):
                    continue
                what = f"{held}: acked under epoch {settled.epoch}"
                if lease.ended_ms <= ack.invoked.at_ms:
                    yield Problem("stale", f"{what} when it was over")
                else:
                    yield Problem("duplicated", f"{what}, and leased again")


def _was_settled_by_another(acks: list[Call], held: Held, ack: Call) -> bool:
    """Whether it may have been when `ack` was answered: then that only said so once more."""
    for other in acks:
        is_earlier = other.invoked.at_ms <= ack.ended_ms and other is not ack
        if is_earlier and not other.is_refused:
            for settled in other.invoked.messages:
                is_same = (settled.partition, settled.offset) == (held.partition, held.offset)
                if is_same and settled.epoch >= held.epoch:
                    return True
    return False


def _appended_twice(places: dict[Place, list[Delivery]]) -> Iterator[Problem]:
    first: dict[str, Place] = {}
    for place, deliveries in sorted(places.items()):
        value = deliveries[0].held.value
        if first.setdefault(value, place) != place:
            yield Problem("duplicated", f"{value} stands at {first[value]} and at {place}")


def _reordered(places: dict[Place, list[Delivery]]) -> Iterator[Problem]:
    """First deliveries: that of which is not known (a kill was faster) are left out."""
    epochs: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for (partition, offset), deliveries in sorted(places.items()):
        firsts = [held.epoch for _, held in deliveries if held.delivery_count == 1]
        if firsts:
            epochs[partition].append((offset, firsts[0]))
    for partition, found in epochs.items():
        for (offset, epoch), (later, later_epoch) in pairwise(found):
            if later_epoch < epoch:
                what = f"{later} was delivered under epoch {later_epoch}, {offset} under {epoch}"
                yield Problem("reordered", f"partition {partition}: {what}")


def _producers_reordered(places: dict[Place, list[Delivery]]) -> Iterator[Problem]:
    last: dict[tuple[int, str], int] = {}
    for (partition, offset), deliveries in sorted(places.items()):
        producer, _, number = deliveries[0].held.value.rpartition(":")
        before = last.get((partition, producer), -1)
        if number.isdigit() and int(number) < before:
            what = f"{producer}:{number} at {offset} stands behind {producer}:{before}"
            yield Problem("reordered", f"partition {partition}: {what}")
        if number.isdigit():
            last[partition, producer] = max(before, int(number))


def _epochs_again(leases: list[Call]) -> Iterator[Problem]:
    seen: dict[tuple[int, int], str] = {}
    for lease in leases:
        for held in lease.answer:
            first = seen.setdefault((held.partition, held.epoch), lease.invoked.call)
            if first != lease.invoked.call:
                yield Problem("stale", f"{held}: its epoch was that of {first}", is_epoch=True)


def _held_by_two(
    calls: list[Call], places: dict[Place, list[Delivery]], margin_ms: float
) -> Iterator[Problem]:
    released: dict[tuple[int, int, int], float] = {}
    extended: dict[tuple[int, int, int], float] = {}
    for call in calls:
        if call.invoked.operation in ("ack", "nack"):
            for held in call.invoked.messages:
                key = held.partition, held.offset, held.epoch
                released[key] = min(released.get(key, call.invoked.at_ms), call.invoked.at_ms)
        elif call.invoked.operation == "extend":
            for held in call.answer:
                key = held.partition, held.offset, held.epoch
                extended[key] = max(extended.get(key, 0), held.deadline_ms)
    for deliveries in places.values():
        for (_, held), (lease, following) in pairwise(deliveries):
            key = held.partition, held.offset, held.epoch
            until_ms = max(held.deadline_ms, extended.get(key, 0))
            until_ms = min(until_ms, released.get(key, until_ms))
            if following.epoch != held.epoch and lease.ended_ms + margin_ms < until_ms:
                what = f"{following} at {lease.ended_ms}: {held} was held until {until_ms}"
                yield Problem("stale", what)
