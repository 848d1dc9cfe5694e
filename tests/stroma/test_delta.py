"""A delta's bytes: what is written is read; every cut and every flipped byte is told apart."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebed.base.errors import Corrupt, DataError, Torn, UnknownVersion
from lakebed.stroma.delta import DeltaWalk, Verdict, decode_header, encode_header
from lakebed.stroma.events import Acks, Event, decode, encode, frame
from lakebed.stroma.format import EVENTS_START, PAYLOAD_BYTES_MAX, RANGE, Ack, Range
from tests.stroma.samples import EVENTS, delta_bytes, flagged_event

DATA = delta_bytes()
STARTS = [EVENTS_START]
for _event in encode(EVENTS):
    STARTS.append(STARTS[-1] + len(_event))


def walked(data: bytes) -> tuple[DeltaWalk, list[Event]]:
    walk = DeltaWalk(memoryview(data))
    events = [placed.event() for placed in walk]
    return walk, events


def test_what_is_written_is_read() -> None:
    walk, events = walked(DATA)
    assert events == EVENTS
    assert (walk.verdict, walk.end, walk.event_count) == (Verdict.WHOLE, len(DATA), len(EVENTS))
    assert (walk.unknown_count, walk.flagged_count) == (1, 0)
    assert decode_header(memoryview(DATA)).generation == 1


def test_zeros_behind_the_last_event_are_its_end() -> None:
    walk, events = walked(DATA + bytes(5000))
    assert (walk.verdict, walk.end, events) == (Verdict.WHOLE, len(DATA), EVENTS)


def test_unknown_flags_are_counted() -> None:
    walk, events = walked(DATA + flagged_event())
    assert (walk.flagged_count, events[-1]) == (1, Ack(21))


@pytest.mark.parametrize("filling", [b"", bytes(100)], ids=["short", "zero-filled"])
def test_every_cut_is_whole_or_torn_and_never_left_uncut(filling: bytes) -> None:
    for size in range(EVENTS_START, len(DATA)):
        walk, events = walked(DATA[:size] + filling)
        count = sum(end <= size for end in STARTS[1:])
        assert (events, walk.end) == (EVENTS[:count], STARTS[count])
        is_boundary = size in STARTS or not any(DATA[STARTS[count] : size])
        assert walk.verdict is (Verdict.WHOLE if is_boundary else Verdict.TORN), size
        if walk.verdict is Verdict.TORN:
            assert walk.torn_bytes > 0


def test_every_flipped_byte_is_corrupt_with_the_others_whole_or_torn_in_the_last() -> None:
    last = len(EVENTS) - 1
    for offset in range(EVENTS_START, len(DATA)):
        number = max(n for n, start in enumerate(STARTS) if start <= offset)
        for bit in (0, 7):
            data = bytearray(DATA)
            data[offset] ^= 1 << bit
            walk, events = walked(bytes(data))
            assert events == EVENTS[:number] + EVENTS[number + 1 :], offset
            if number == last:
                assert (walk.verdict, walk.end) == (Verdict.TORN, STARTS[last])
            else:
                assert walk.verdict is Verdict.CORRUPT
                (damage,) = walk.damages
                assert (damage.start, damage.end) == (STARTS[number], STARTS[number + 1])
                assert walk.end == len(DATA)


def test_lost_sectors_between_good_events_are_corrupt() -> None:
    data = DATA[: STARTS[2]] + bytes(STARTS[5] - STARTS[2]) + DATA[STARTS[5] :]
    walk, events = walked(data)
    assert events == EVENTS[:2] + EVENTS[5:]
    assert [(d.start, d.end) for d in walk.damages] == [(STARTS[2], STARTS[5])]


def test_every_flipped_or_missing_byte_of_the_header_is_told() -> None:
    header = encode_header(generation=7, created_ts_ms=5)
    for size in range(len(header)):
        with pytest.raises(Torn):
            decode_header(memoryview(header[:size]))
    with pytest.raises(Torn, match="never written"):
        decode_header(memoryview(bytes(100)))
    for offset in range(len(header)):
        data = bytearray(header)
        data[offset] ^= 0x10
        with pytest.raises(Corrupt):
            decode_header(memoryview(data))


def test_a_newer_version_is_refused_by_name() -> None:
    newer = encode_header(generation=1, created_ts_ms=0, version=2)
    with pytest.raises(UnknownVersion, match="expected 1, found 2"):
        decode_header(memoryview(newer))
    event = frame(2, bytes(8), version=2)
    with pytest.raises(UnknownVersion, match="at byte 60"):
        walked(delta_bytes([]) + event)


WRONG = [(2, b""), (2, bytes(9)), (5, b"x"), (19, b""), (19, bytes(39)), (20, bytes(17)),
         (20, RANGE.pack(Range(5, 5))), (20, RANGE.pack(Range(6, 5))), (19, bytes(40)),
         (21, bytes(32)), (23, bytes(8))]  # fmt: skip


@pytest.mark.parametrize(("event_type", "payload"), WRONG)
def test_an_event_that_no_writer_writes_is_corrupt(event_type: int, payload: bytes) -> None:
    with pytest.raises(Corrupt):
        decode(event_type, payload)


def test_an_event_too_long_for_one_becomes_several() -> None:
    ranges = [(2 * n, 2 * n + 1) for n in range(PAYLOAD_BYTES_MAX // RANGE.size + 10)]
    parts = encode([Acks(ranges)])
    assert len(parts) == 2
    _, events = walked(delta_bytes([]) + b"".join(parts))
    assert [r for event in events for r in event.ranges] == ranges  # type: ignore[union-attr]


@given(st.binary(max_size=300))
def test_any_bytes_are_walked_to_an_end(rest: bytes) -> None:
    walk = DeltaWalk(memoryview(DATA + rest))
    try:
        events = [placed.event() for placed in walk]
    except DataError:
        return
    assert events[: len(EVENTS)] == EVENTS
    assert walk.end <= len(DATA) + len(rest)
