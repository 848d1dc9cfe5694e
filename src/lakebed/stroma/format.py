"""The file formats of a consumer group: snapshot and delta log. Big-endian; checksums are crc32c.

    snapshot := SNAPSHOT_HEADER payload CHECKSUM          the checksum covers the payload
    payload  := SNAPSHOT_START IN_FLIGHT[in_flight_count] DEADLINE_HINT
                [SECTION RANGE[entry_count]]              flag bit 0: acked ahead of a gap
                [SECTION MESSAGE_STATE[entry_count]]      flag bit 1; `last_epoch` is in its SECTION
    delta    := DELTA_HEADER event* zero*                 zeros after the last event are the end
    event    := EVENT_HEADER payload CHECKSUM             covers all but the magic and itself

The payload of an event is one record of its type, or one or more records for the types that cover
ranges. Long sections are read and written as columns of 64-bit words, because they may have a
million entries.
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
    """The header of a snapshot file."""

    magic: Annotated[bytes, Raw(8)]  # "KSNAP" and three zeros
    version: u16  # 1
    flags: u16  # bit 0 acked ranges, bit 1 message states
    header_len: u32  # 76
    created_ts_ms: u64  # since 1970
    tp_hash: u64  # first 8 bytes of BLAKE3 of `<topic>-<partition>`
    group_hash: u64  # first 8 bytes of BLAKE3 of the group's name
    generation: u64  # higher than that of every earlier snapshot of this group
    incarnation: u64  # random; changes if the delta log is lost; 0 in files of older releases
    reserved: Annotated[bytes, Raw(16)]  # zero
    header_crc32c: u32  # of all header bytes before it


class SnapshotStart(NamedTuple):
    """The first fields of a snapshot's payload. The leased messages follow."""

    acked_until: u64  # every message before it is settled
    in_flight_count: u32
    reserved: u32  # zero


class InFlight(NamedTuple):
    """A leased message in a snapshot."""

    offset: u64
    deadline_ts_ms: u64
    epoch: u32  # of the lease
    delivery_count: u32  # leases so far, including this one


class DeadlineHint(NamedTuple):
    """The earliest deadline in a snapshot, stored after its leased messages."""

    min_deadline_ts_ms: u64  # the earliest deadline of the leased messages; 0 if there are none


class Section(NamedTuple):
    """The header of a section of a snapshot: its acked ranges, or its message states."""

    entry_count: u32
    last_epoch: u32  # before message states: no later epoch was used; before ranges: zero


class Range(NamedTuple):
    """Messages `[start, end)`. Event 20, `AckRange`, consists of one or more of these."""

    start: u64
    end: u64


class MessageState(NamedTuple):
    """The state of a message that is neither settled nor leased, in a snapshot.

    Only messages that were leased before, or that are delayed or scheduled, are stored.
    """

    offset: u64
    not_before_ms: u64  # 0: it can be leased immediately
    delivery_count: u32
    reserved: u32  # zero


class DeltaHeader(NamedTuple):
    """The header of a delta log, which holds the changes since a snapshot."""

    magic: Annotated[bytes, Raw(8)]  # "KDELTA" and two zeros
    version: u16  # 1
    flags: u16  # 0
    header_len: u32  # 60
    created_ts_ms: u64  # since 1970
    generation: u64  # of the snapshot that it continues; 1 if there is no snapshot
    incarnation: u64  # that of the snapshot; 0 in files of older releases
    reserved: Annotated[bytes, Raw(16)]  # zero
    header_crc32c: u32  # of all header bytes before it


class EventHeader(NamedTuple):
    """The header of an event; its payload follows."""

    magic: u16  # 0x4B45, "KE"
    version: u16  # 1
    event_type: u16
    flags: u16  # 0; events with other flags are counted and reported
    payload_len: u32


class Checksum(NamedTuple):
    """The checksum at the end of an event or a snapshot."""

    crc32c: u32


class MarkInflight(NamedTuple):
    """Event 1, `MarkInflight`: a message was leased.

    If the message is already leased under the same epoch, its lease was extended.
    """

    offset: u64
    deadline_ts_ms: u64
    epoch: u32


class Ack(NamedTuple):
    """Event 2, `Ack`: a message was settled, so it is not delivered again."""

    offset: u64


class ClearInflight(NamedTuple):
    """Event 3, `ClearInflight`: a lease ended, and the message can be leased immediately."""

    offset: u64


class BumpAckedUntil(NamedTuple):
    """Event 4, `BumpAckedUntil`: every message before the offset was settled."""

    acked_until: u64


class Delay(NamedTuple):
    """Event 16, `Delay`: a message must not be leased before a certain time."""

    offset: u64
    not_before_ms: u64


class DeadLetter(NamedTuple):
    """Event 17, `DeadLetter`: a message was copied to the dead-letter topic, and settled."""

    offset: u64


class Nack(NamedTuple):
    """Event 18, `Nack`: a message was given back by the holder of its lease."""

    offset: u64
    epoch: u32


class LeaseRange(NamedTuple):
    """Part of event 19, `LeaseRange`: messages were leased, or their leases were extended.

    The event holds one or more of these records.
    """

    start: u64
    end: u64
    deadline_ts_ms: u64
    epoch: u32
    delivery_count: u32  # leases so far, including this one
    lease_ms: u32  # the time from the lease or its extension to the deadline
    reserved: u32  # zero


class ReturnRange(NamedTuple):
    """Part of event 21, `ReturnRange`: messages were given back.

    The event holds one or more of these records.
    """

    start: u64
    end: u64
    not_before_ms: u64  # 0: they can be leased immediately
    epoch: u32  # of the lease
    delay_s: u32  # the time from the return to `not_before_ms`, rounded up; 0: unknown


class Seek(NamedTuple):
    """Event 22, `Seek`: the group was moved to an offset.

    Messages before the offset are settled; all others count as never leased.
    """

    offset: u64


class ReserveEpochs(NamedTuple):
    """Event 23, `ReserveEpochs`: epochs were reserved, up to this one.

    Leases may use them without a further reservation.
    """

    epoch: u32


class FoldMark(NamedTuple):
    """Event 24, `FoldMark`: the writing of a new snapshot, with this generation, was started.

    That snapshot includes exactly the events before the mark.
    """

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
)  # the start of every event, of this version or a newer one
HEADER_BYTES_MAX = 4096  # of a file header that has additional, unknown fields
PAYLOAD_BYTES_MAX = 1 << 20  # of an event

# The types of events: those whose payload is one record, one or more records, or empty.
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
# `columns` and `interleaved` rely on these sizes and offsets.
assert RANGE.size == 2 * _WORD_BYTES
assert IN_FLIGHT.size == MESSAGE_STATE.size == 3 * _WORD_BYTES
assert IN_FLIGHT.offset_of("epoch") == 2 * _WORD_BYTES
assert MESSAGE_STATE.offset_of("delivery_count") == 2 * _WORD_BYTES


def columns(section: Buffer, *, count: int) -> list[array[int]]:
    """Splits a section, whose entries have `count` 64-bit words each, into columns of words."""
    words = array("Q", bytes(section))
    if sys.byteorder == "little":
        words.byteswap()
    return [words[number::count] for number in range(count)]


def interleaved(parts: Iterable[array[int]]) -> bytes:
    """Joins columns into a section: the inverse of `columns`."""
    parts = list(parts)
    words = array("Q", bytes(_WORD_BYTES * len(parts) * len(parts[0])))
    for number, part in enumerate(parts):
        words[number :: len(parts)] = part
    if sys.byteorder == "little":
        words.byteswap()
    return words.tobytes()


def two_halves(upper: int, lower: int) -> int:
    """Packs two 32-bit fields into one word of a column."""
    return upper << 32 | lower


def upper_half(word: int) -> int:
    return word >> 32


def lower_half(word: int) -> int:
    return word & U32_MAX
