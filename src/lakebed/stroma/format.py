"""The bytes of a consumer group: its snapshot and its delta log. Big-endian, crc32c throughout.

    snapshot := SNAPSHOT_HEADER payload CHECKSUM          the checksum is the payload's
    payload  := SNAPSHOT_START IN_FLIGHT[in_flight_count] DEADLINE_HINT
                [SECTION RANGE[entry_count]]              flag bit 0: acked ahead of a gap
                [SECTION MESSAGE_STATE[entry_count]]      flag bit 1; `last_epoch` is in its SECTION
    delta    := DELTA_HEADER event* zero*                 zero where an event should be is the end
    event    := EVENT_HEADER payload CHECKSUM             over everything but the magic and itself

An event's payload is one record of its type; of the types that cover ranges, one or more. Long
sections are read and written as columns of 64-bit words, for there may be a million entries.
"""

from __future__ import annotations

import re
import sys
from array import array
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, NamedTuple

from lakebed.base.layout import Buffer, Layout, Raw, u16, u32, u64

U64_MAX = (1 << 64) - 1
U32_MAX = (1 << 32) - 1


class SnapshotHeader(NamedTuple):
    """At the start of a snapshot."""

    magic: Annotated[bytes, Raw(8)]  # "KSNAP" and three zeros
    version: u16  # 1
    flags: u16  # bit 0 acked ranges, bit 1 message states
    header_len: u32  # 76
    created_ts_ms: u64  # since 1970
    tp_hash: u64  # first 8 bytes of BLAKE3 of `<topic>-<partition>`
    group_hash: u64  # the same of the group's name
    generation: u64  # how many snapshots this group has had, with this one
    incarnation: u64  # random, given at the group's creation; 0: older than that
    reserved: Annotated[bytes, Raw(16)]  # zero
    header_crc32c: u32  # of all header bytes before it


class SnapshotStart(NamedTuple):
    """The payload's first fields; the leased messages follow."""

    acked_until: u64  # every message before it is settled
    in_flight_count: u32
    reserved: u32  # zero


class InFlight(NamedTuple):
    """A message that is leased."""

    offset: u64
    deadline_ts_ms: u64
    epoch: u32  # of the lease
    delivery_count: u32  # leases so far, with this one


class DeadlineHint(NamedTuple):
    """Behind the leased messages."""

    min_deadline_ts_ms: u64  # of them; 0 if there are none


class Section(NamedTuple):
    """Precedes the acked ranges, and the message states."""

    entry_count: u32
    last_epoch: u32  # of the message states: no later epoch was handed out; of the ranges: zero


class Range(NamedTuple):
    """Messages `[start, end)`; also the payload of event 20, any number of times."""

    start: u64
    end: u64


class MessageState(NamedTuple):
    """A message that is neither settled nor leased, and of which something is known."""

    offset: u64
    not_before_ms: u64  # 0: it can be leased at once
    delivery_count: u32
    reserved: u32  # zero


class DeltaHeader(NamedTuple):
    """At the start of a delta log."""

    magic: Annotated[bytes, Raw(8)]  # "KDELTA" and two zeros
    version: u16  # 1
    flags: u16  # 0
    header_len: u32  # 60
    created_ts_ms: u64  # since 1970
    generation: u64  # of the snapshot it goes on from; 1: from nothing, if there is no snapshot
    incarnation: u64  # that of the snapshot; 0: older than that
    reserved: Annotated[bytes, Raw(16)]  # zero
    header_crc32c: u32  # of all header bytes before it


class EventHeader(NamedTuple):
    """Precedes an event's payload."""

    magic: u16  # 0x4B45, "KE"
    version: u16  # 1
    event_type: u16
    flags: u16  # 0; counted and shown if it is not
    payload_len: u32


class Checksum(NamedTuple):
    """Ends an event, and a snapshot."""

    crc32c: u32


class MarkInflight(NamedTuple):
    """1 `MarkInflight`: leased; with the epoch it has already, the lease is extended."""

    offset: u64
    deadline_ts_ms: u64
    epoch: u32


class Ack(NamedTuple):
    """2 `Ack`: settled."""

    offset: u64


class ClearInflight(NamedTuple):
    """3 `ClearInflight`: not leased any more; it can be leased at once."""

    offset: u64


class BumpAckedUntil(NamedTuple):
    """4 `BumpAckedUntil`: every message before it is settled."""

    acked_until: u64


class Delay(NamedTuple):
    """16 `Delay`: not leased any more, and not to be before that time."""

    offset: u64
    not_before_ms: u64


class DeadLetter(NamedTuple):
    """17 `DeadLetter`: settled, for it stands in the dead-letter topic."""

    offset: u64


class Nack(NamedTuple):
    """18 `Nack`: given back by the lease with that epoch."""

    offset: u64
    epoch: u32


class LeaseRange(NamedTuple):
    """19 `LeaseRange`: messages leased, or their lease extended; any number of times."""

    start: u64
    end: u64
    deadline_ts_ms: u64
    epoch: u32
    delivery_count: u32  # leases so far, with this one
    lease_ms: u32  # from the lease, or its extension, to the deadline
    reserved: u32  # zero


class ReturnRange(NamedTuple):
    """21 `ReturnRange`: messages given back; any number of times."""

    start: u64
    end: u64
    not_before_ms: u64  # 0: can be leased at once
    epoch: u32  # of the lease
    delay_s: u32  # from when it was given back to `not_before_ms`, rounded up; 0: not known


class Seek(NamedTuple):
    """22 `Seek`: everything before is settled, everything behind is as if never leased."""

    offset: u64


class ReserveEpochs(NamedTuple):
    """23 `ReserveEpochs`: epochs up to this one may be handed out without being recorded."""

    epoch: u32


class FoldMark(NamedTuple):
    """24 `FoldMark`: the snapshot of that generation has what stands before it, and no more."""

    generation: u64


SNAPSHOT_HEADER = Layout(SnapshotHeader, order=">", size=76)
SNAPSHOT_START = Layout(SnapshotStart, order=">", size=16)
IN_FLIGHT = Layout(InFlight, order=">", size=24)
DEADLINE_HINT = Layout(DeadlineHint, order=">", size=8)
SECTION = Layout(Section, order=">", size=8)
RANGE = Layout(Range, order=">", size=16)
MESSAGE_STATE = Layout(MessageState, order=">", size=24)
DELTA_HEADER = Layout(DeltaHeader, order=">", size=60)
EVENT_HEADER = Layout(EventHeader, order=">", size=12)
CHECKSUM = Layout(Checksum, order=">", size=4)
MARK_INFLIGHT = Layout(MarkInflight, order=">", size=20)
ACK = Layout(Ack, order=">", size=8)
CLEAR_INFLIGHT = Layout(ClearInflight, order=">", size=8)
BUMP_ACKED_UNTIL = Layout(BumpAckedUntil, order=">", size=8)
DELAY = Layout(Delay, order=">", size=16)
DEAD_LETTER = Layout(DeadLetter, order=">", size=8)
NACK = Layout(Nack, order=">", size=12)
LEASE_RANGE = Layout(LeaseRange, order=">", size=40)
RETURN_RANGE = Layout(ReturnRange, order=">", size=32)
SEEK = Layout(Seek, order=">", size=8)
RESERVE_EPOCHS = Layout(ReserveEpochs, order=">", size=4)
FOLD_MARK = Layout(FoldMark, order=">", size=8)

SNAPSHOT_MAGIC = b"KSNAP\0\0\0"
SNAPSHOT_VERSION = 1
FLAG_ACKED_RANGES = 1 << 0
FLAG_MESSAGE_STATES = 1 << 1
FLAGS_KNOWN = FLAG_ACKED_RANGES | FLAG_MESSAGE_STATES

DELTA_MAGIC = b"KDELTA\0\0"
DELTA_VERSION = 1
EVENTS_START = DELTA_HEADER.size

EVENT_MAGIC = 0x4B45
EVENT_VERSION = 1
EVENT_CHECKED_FROM = EVENT_HEADER.offset_of("version")
EVENT_MARK = re.compile(
    re.escape(EVENT_MAGIC.to_bytes(2, "big")) + rb"(?=\0[\1-\xff])", re.DOTALL
)  # how every event begins, of this version or a newer one
HEADER_BYTES_MAX = 4096  # of a file's header that has more fields than are known
PAYLOAD_BYTES_MAX = 1 << 20  # of an event

# The types of events: whose payload is one record, one or more, or nothing.
SINGLE_LAYOUTS: Mapping[int, Layout[Any]] = {
    1: MARK_INFLIGHT,
    2: ACK,
    3: CLEAR_INFLIGHT,
    4: BUMP_ACKED_UNTIL,
    16: DELAY,
    17: DEAD_LETTER,
    18: NACK,
    22: SEEK,
    23: RESERVE_EPOCHS,
    24: FOLD_MARK,  # FOLD_MARK_TYPE
}
REPEATED_LAYOUTS: Mapping[int, Layout[Any]] = {19: LEASE_RANGE, 20: RANGE, 21: RETURN_RANGE}
RESET_TYPE, ACK_RANGE_TYPE, FOLD_MARK_TYPE = 5, 20, 24

_WORD_BYTES = 8
assert array("Q").itemsize == _WORD_BYTES
# The columns below are these layouts, word by word.
assert RANGE.size == 2 * _WORD_BYTES
assert IN_FLIGHT.size == MESSAGE_STATE.size == 3 * _WORD_BYTES
assert IN_FLIGHT.offset_of("epoch") == 2 * _WORD_BYTES
assert MESSAGE_STATE.offset_of("delivery_count") == 2 * _WORD_BYTES


def columns(section: Buffer, *, count: int) -> list[array[int]]:
    """The section's entries of `count` words each, column by column."""
    words = array("Q", bytes(section))
    if sys.byteorder == "little":
        words.byteswap()
    return [words[number::count] for number in range(count)]


def interleaved(parts: Iterable[array[int]]) -> bytes:
    """The inverse of `columns`."""
    parts = list(parts)
    words = array("Q", bytes(_WORD_BYTES * len(parts) * len(parts[0])))
    for number, part in enumerate(parts):
        words[number :: len(parts)] = part
    if sys.byteorder == "little":
        words.byteswap()
    return words.tobytes()


def two_halves(upper: int, lower: int) -> int:
    """Two 32-bit fields as the word they are in a column."""
    return upper << 32 | lower


def upper_half(word: int) -> int:
    return word >> 32


def lower_half(word: int) -> int:
    return word & U32_MAX
