"""A snapshot's bytes, and the state it is made from."""

from __future__ import annotations

from array import array
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebed.base.errors import Corrupt, DataError, Torn, UnknownVersion
from lakebed.stroma.config import GroupConfig
from lakebed.stroma.format import SNAPSHOT_HEADER, U64_MAX
from lakebed.stroma.message_status import SETTLED, StatusKind
from lakebed.stroma.paths import GroupName
from lakebed.stroma.snapshot import Snapshot, decode_snapshot, encode_snapshot
from lakebed.stroma.snapshot_conversion import snapshot_of, state_of
from lakebed.stroma.state import GroupState
from tests.stroma.groups import NAME
from tests.stroma.samples import SNAPSHOT, T

DATA = encode_snapshot(SNAPSHOT, NAME)
CONFIG = GroupConfig()


def test_what_is_written_is_read() -> None:
    assert decode_snapshot(DATA, NAME) == SNAPSHOT


def test_every_cut_is_torn() -> None:
    for size in range(len(DATA)):
        with pytest.raises(Torn):
            decode_snapshot(DATA[:size], NAME)
    with pytest.raises(Torn, match="never written"):
        decode_snapshot(bytes(len(DATA)), NAME)


def test_every_flipped_byte_is_noticed() -> None:
    for offset in range(len(DATA)):
        for bit in (0, 7):
            data = bytearray(DATA)
            data[offset] ^= 1 << bit
            # A count that was made larger looks like a file that is too short.
            with pytest.raises((Corrupt, Torn) if offset >= SNAPSHOT_HEADER.size else Corrupt):
                decode_snapshot(bytes(data), NAME)


def test_a_longer_file_is_corrupt() -> None:
    with pytest.raises(Corrupt, match="unexpected bytes after the snapshot's end"):
        decode_snapshot(DATA + b"\0", NAME)


def test_a_newer_version_is_refused_by_name() -> None:
    with pytest.raises(UnknownVersion, match="expected 1, found 2"):
        decode_snapshot(encode_snapshot(SNAPSHOT, NAME, version=2), NAME)


@pytest.mark.parametrize("other", [NAME._replace(partition=1), NAME._replace(group="other"),
                                   GroupName("orders-0", 0, "billing")], ids=str)  # fmt: skip
def test_the_snapshot_of_another_group_is_refused(other: GroupName) -> None:
    with pytest.raises(Corrupt, match="another group"):
        decode_snapshot(DATA, other)


def words(*numbers: int) -> array[int]:
    return array("Q", numbers)


IMPOSSIBLE = [
    replace(SNAPSHOT, acked_starts=words(101, 102), acked_ends=words(103, 111)),
    replace(SNAPSHOT, acked_starts=words(110, 101), acked_ends=words(111, 103)),
    replace(SNAPSHOT, acked_starts=words(101, 110), acked_ends=words(101, 111)),
    replace(SNAPSHOT, acked_starts=words(99, 110)),
    replace(SNAPSHOT, leased_offsets=words(103, 103, 120)),
    replace(SNAPSHOT, leased_offsets=words(104, 103, 120)),
    replace(SNAPSHOT, known_offsets=words(99, 130)),
]


@pytest.mark.parametrize("snapshot", IMPOSSIBLE)
def test_messages_out_of_order_are_corrupt(snapshot: Snapshot) -> None:
    with pytest.raises(Corrupt, match="order"):
        decode_snapshot(encode_snapshot(snapshot, NAME), NAME)


def test_an_offset_that_cannot_be_is_corrupt() -> None:
    with pytest.raises(Corrupt, match="an offset in the snapshot is out of range"):
        state_of(replace(SNAPSHOT, known_offsets=words(105, U64_MAX)), CONFIG, now_ms=T)


def test_a_message_that_is_settled_and_leased_stays_settled() -> None:
    snapshot = replace(SNAPSHOT, leased_offsets=words(101, 102, 120))
    state = state_of(snapshot, CONFIG, now_ms=T)
    assert next(state.runs.between(101, 103))[2] is SETTLED


def test_the_state_of_a_snapshot_is_what_stands_there() -> None:
    state = state_of(SNAPSHOT, CONFIG, now_ms=T + 10)
    kinds = [(start, end, status.kind, status.deliveries) for start, end, status in state.runs]
    assert kinds == [
        (100, 101, StatusKind.FRESH, 0),
        (101, 103, StatusKind.SETTLED, 0),
        (103, 105, StatusKind.LEASED, 1),
        (105, 106, StatusKind.AVAILABLE, 2),
        (106, 110, StatusKind.FRESH, 0),
        (110, 111, StatusKind.SETTLED, 0),
        (111, 120, StatusKind.FRESH, 0),
        (120, 121, StatusKind.LEASED, 3),
        (121, 130, StatusKind.FRESH, 0),
        (130, 131, StatusKind.WAITING, 0),
    ]
    assert (state.in_flight, state.settled_ahead, state.epoch) == (3, 3, 65_536)
    assert snapshot_of(state, generation=4, created_ts_ms=T) == SNAPSHOT


def test_deadlines_are_capped_to_what_was_left_of_them() -> None:
    early_ms = T - 3_600_000
    state = state_of(SNAPSHOT, CONFIG, now_ms=early_ms)
    assert {s.time_ms - early_ms for _, _, s in state.runs if s.kind is StatusKind.LEASED} == {
        1000,
        9000,
    }


KINDS = st.sampled_from(["fresh", "settled", "leased", "waiting", "known"])


@given(st.lists(st.tuples(KINDS, st.integers(1, 700), st.integers(0, 3)), max_size=40))
def test_any_state_comes_back_from_its_snapshot(parts: list[tuple[str, int, int]]) -> None:
    snapshot = Snapshot(generation=2, created_ts_ms=T, acked_until=50, last_epoch=9)
    position = 50
    for kind, length, number in parts:
        span = range(position, position + length)
        position += length
        if kind == "settled" and (not snapshot.acked_ends or snapshot.acked_ends[-1] < span.start):
            snapshot.acked_starts.append(span.start)
            snapshot.acked_ends.append(span.stop)
        elif kind == "leased":
            snapshot.leased_offsets.extend(span)
            snapshot.leased_deadlines.extend([T + number] * length)
            snapshot.leased_epochs.extend([number + 1 << 32 | 1] * length)
        elif kind in ("waiting", "known"):
            snapshot.known_offsets.extend(span)
            snapshot.known_not_before.extend([T + 1 if kind == "waiting" else 0] * length)
            snapshot.known_counts.extend([number + 1 << 32] * length)
    if snapshot.acked_starts and snapshot.acked_starts[0] == 50:
        snapshot.acked_starts[0] = 51  # or it would not be ahead of a gap
        if snapshot.acked_ends[0] == 51:
            del snapshot.acked_starts[0], snapshot.acked_ends[0]
    state = state_of(decode_snapshot(encode_snapshot(snapshot, NAME), NAME), CONFIG, now_ms=T)
    assert snapshot_of(state, generation=2, created_ts_ms=T) == snapshot
    assert state.settled_ahead == sum(e - s for s, e, v in state.runs if v is SETTLED)
    assert state.in_flight == sum(e - s for s, e, v in state.runs if v.kind is StatusKind.LEASED)


def test_an_empty_state_has_a_snapshot() -> None:
    snapshot = snapshot_of(GroupState(CONFIG), generation=1, created_ts_ms=T)
    data = encode_snapshot(snapshot, NAME)
    assert len(data) == 76 + 16 + 8 + 8 + 8 + 4
    assert state_of(decode_snapshot(data, NAME), CONFIG, now_ms=T).end == 0


@given(st.binary(max_size=200))
def test_any_bytes_are_refused(rest: bytes) -> None:
    for data in (rest, DATA[: SNAPSHOT_HEADER.size] + rest):
        with pytest.raises(DataError):
            decode_snapshot(data, NAME)
