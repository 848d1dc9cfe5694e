"""A delta with every type of event, and a snapshot with every part."""

from __future__ import annotations

from array import array
from collections.abc import Sequence

from lakebed.stroma.delta import encode_header
from lakebed.stroma.events import Acks, Event, Leases, Reset, Returns, Unknown, encode, frame
from lakebed.stroma.format import (
    Ack,
    BumpAckedUntil,
    ClearInflight,
    DeadLetter,
    Delay,
    LeaseRange,
    MarkInflight,
    Nack,
    Range,
    ReserveEpochs,
    ReturnRange,
    Seek,
    two_halves,
)
from lakebed.stroma.snapshot import Snapshot

T = 1_700_000_000_000  # ms

EVENTS: list[Event] = [
    Reset(),
    Seek(3),
    BumpAckedUntil(5),
    ReserveEpochs(65_536),
    MarkInflight(5, T + 30_000, 1),
    Leases(
        [
            LeaseRange(6, 20, T + 60_000, 2, 1, 60_000, 0),
            LeaseRange(30, 31, T + 60_000, 2, 7, 60_000, 0),
        ]
    ),
    Ack(7),
    Acks([Range(9, 12), Range(14, 15)]),
    Nack(5, 1),
    Delay(6, T + 5000),
    ClearInflight(8),
    Returns([ReturnRange(12, 13, 0, 2, 0), ReturnRange(15, 17, T + 7000, 2, 0)]),
    DeadLetter(30),
    Unknown(999, b"from the future"),
]


def delta_bytes(events: Sequence[Event] = EVENTS, *, generation: int = 1) -> bytes:
    return encode_header(generation=generation, created_ts_ms=T) + b"".join(encode(events))


def flagged_event() -> bytes:
    """An event with a flag nobody knows."""
    return frame(2, (21).to_bytes(8, "big"), flags=4)


SNAPSHOT = Snapshot(
    generation=4,
    created_ts_ms=T,
    acked_until=100,
    last_epoch=65_536,
    acked_starts=array("Q", [101, 110]),
    acked_ends=array("Q", [103, 111]),
    leased_offsets=array("Q", [103, 104, 120]),
    leased_deadlines=array("Q", [T + 1000, T + 1000, T + 9000]),
    leased_epochs=array("Q", [two_halves(8, 1), two_halves(8, 1), two_halves(9, 3)]),
    known_offsets=array("Q", [105, 130]),
    known_not_before=array("Q", [0, T + 60_000]),
    known_counts=array("Q", [two_halves(2, 0), two_halves(0, 0)]),
)
