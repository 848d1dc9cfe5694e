"""The events of a group, as values and as bytes.

Most events are the records defined in `format`. An event that covers ranges may hold many ranges,
so that a call on a thousand ranges is one event with one checksum.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from operator import lt
from typing import Any, NamedTuple

from lakebed.base.errors import Corrupt
from lakebed.base.layout import Buffer, Layout
from lakebed.kernels import crc32c
from lakebed.stroma.format import (
    ACK_RANGE_TYPE,
    CHECKSUM,
    EVENT_CHECKED_FROM,
    EVENT_HEADER,
    EVENT_MAGIC,
    EVENT_VERSION,
    LEASE_RANGE,
    PAYLOAD_BYTES_MAX,
    RANGE,
    REPEATED_LAYOUTS,
    RESET_TYPE,
    RETURN_RANGE,
    SINGLE_LAYOUTS,
    Ack,
    BumpAckedUntil,
    Checksum,
    ClearInflight,
    DeadLetter,
    Delay,
    EventHeader,
    FoldMark,
    LeaseRange,
    MarkInflight,
    Nack,
    Range,
    ReserveEpochs,
    ReturnRange,
    Seek,
    columns,
)


class Leases(NamedTuple):
    """Event 19, `LeaseRange`: messages were leased, or their leases were extended."""

    ranges: Sequence[LeaseRange]


class Acks(NamedTuple):
    """Event 20, `AckRange`: messages `[start, end)` were settled, and are not delivered again."""

    ranges: Sequence[tuple[int, int]]


class Returns(NamedTuple):
    """Event 21, `ReturnRange`: messages were given back."""

    ranges: Sequence[ReturnRange]


class Reset(NamedTuple):
    """Event 5, `Reset`: the group starts over at the beginning; no message is settled or leased."""


class Unknown(NamedTuple):
    """An event of a type that this release does not know. It is skipped and counted."""

    event_type: int
    payload: bytes


Event = (
    MarkInflight | Ack | ClearInflight | BumpAckedUntil | Reset | Delay | DeadLetter | Nack
    | Leases | Acks | Returns | Seek | ReserveEpochs | FoldMark | Unknown
)  # fmt: skip

_SINGLE_TYPES = {layout.record: number for number, layout in SINGLE_LAYOUTS.items()}
_REPEATED_TYPES: Mapping[type, tuple[int, Layout[Any]]] = {
    Leases: (19, LEASE_RANGE),
    Acks: (ACK_RANGE_TYPE, RANGE),
    Returns: (21, RETURN_RANGE),
}
_REPEATED_CLASSES: Mapping[int, type[Leases | Acks | Returns]] = {
    19: Leases,
    ACK_RANGE_TYPE: Acks,
    21: Returns,
}


def encode(events: Iterable[Event], *, ahead_ms: int = 0) -> list[bytes]:
    """Encodes each event; an event whose payload would be too long becomes several.

    The ends of leases and delays in `events` are times of the group's clock, and are stored as wall
    clock times. `ahead_ms` is how far the wall clock is ahead of the group's clock. The times of
    `Delay` events are wall clock times already.
    """
    if ahead_ms:
        events = (_shifted(event, ahead_ms) for event in events)
    return [frame(number, payload) for event in events for number, payload in _payloads(event)]


def frame(
    event_type: int, payload: bytes, *, flags: int = 0, version: int = EVENT_VERSION
) -> bytes:
    """Encodes one event with its header and checksum, as it is stored in a delta log."""
    header = EventHeader(EVENT_MAGIC, version, event_type, flags, len(payload))
    data = EVENT_HEADER.pack(header) + payload
    return data + CHECKSUM.pack(Checksum(crc32c(memoryview(data)[EVENT_CHECKED_FROM:])))


def decode(event_type: int, payload: Buffer) -> Event:
    """Decodes the payload of an event; raises `Corrupt` if it is invalid.

    The checksum of the event must have been verified.
    """
    single = SINGLE_LAYOUTS.get(event_type)
    if single is not None:
        if len(payload) != single.size:
            raise _wrong_length(event_type, expected=single.size, found=len(payload))
        event: Event = single.unpack(payload)
        return event
    repeated = REPEATED_LAYOUTS.get(event_type)
    if repeated is not None:
        if not payload or len(payload) % repeated.size:
            raise _wrong_length(event_type, expected=f"n x {repeated.size}", found=len(payload))
        if event_type == ACK_RANGE_TYPE:
            return _acks(payload)
        ranges = list(repeated.iter_unpack(payload))
        for entry in ranges:
            if entry.start >= entry.end:
                raise Corrupt(f"event of type {event_type}: a range ends at or before its start")
        return _REPEATED_CLASSES[event_type](ranges)
    if event_type == RESET_TYPE:
        if len(payload):
            raise _wrong_length(event_type, expected=0, found=len(payload))
        return Reset()
    return Unknown(event_type, bytes(payload))


def _shifted(event: Event, by_ms: int) -> Event:
    match event:
        case MarkInflight(_, deadline_ms, _):
            return event._replace(deadline_ts_ms=max(0, deadline_ms + by_ms))
        case Leases(ranges):
            return Leases(
                [
                    entry._replace(deadline_ts_ms=max(0, entry.deadline_ts_ms + by_ms))
                    for entry in ranges
                ]
            )
        case Returns(returns):
            return Returns(
                [
                    entry._replace(not_before_ms=max(1, entry.not_before_ms + by_ms))
                    if entry.not_before_ms
                    else entry
                    for entry in returns
                ]
            )
    return event  # schedules already use the wall clock


def _payloads(event: Event) -> Iterator[tuple[int, bytes]]:
    match event:
        case Leases(ranges) | Acks(ranges) | Returns(ranges):
            number, layout = _REPEATED_TYPES[type(event)]
            count_max = PAYLOAD_BYTES_MAX // layout.size
            for first in range(0, len(ranges), count_max):
                yield number, b"".join(map(layout.pack, ranges[first : first + count_max]))
        case Reset():
            yield RESET_TYPE, b""
        case Unknown():
            yield event.event_type, event.payload
        case _:
            number = _SINGLE_TYPES[type(event)]
            yield number, SINGLE_LAYOUTS[number].pack(event)


def _acks(payload: Buffer) -> Acks:
    """Decodes the ranges of an `AckRange` event as columns, which is faster for many ranges."""
    starts, ends = columns(payload, count=2)
    if not all(map(lt, starts, ends)):
        raise Corrupt(f"event of type {ACK_RANGE_TYPE}: a range ends at or before its start")
    return Acks(list(zip(starts, ends, strict=True)))


def _wrong_length(event_type: int, *, expected: object, found: int) -> Corrupt:
    return Corrupt(f"event of type {event_type}: the payload has a wrong length",
                   expected=expected, found=found)  # fmt: skip


assert set(_REPEATED_CLASSES) == set(REPEATED_LAYOUTS)
assert Range in {layout.record for layout in REPEATED_LAYOUTS.values()}
