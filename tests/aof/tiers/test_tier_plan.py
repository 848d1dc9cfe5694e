"""What is done next, rule by rule."""

from __future__ import annotations

from typing import Any

import pytest

from lakebed.aof.manifest.records import ReasonCode
from lakebed.aof.manifest.state import (
    Condition,
    Draft,
    Failures,
    Pending,
    Residency,
    SegmentState,
    frozen,
)
from lakebed.aof.tiers.tier_plan import (
    Circumstances,
    next_compression,
    next_due_ns,
    next_upload,
    tier0_evictions,
    tier1_evictions,
)

SEALED = Condition.OPENED | Condition.SEALED
T0, T1, T2 = Residency


def segment(number: int, residency: Residency = T0, **others: int) -> SegmentState:
    draft = Draft(number, durable_bytes=100, compressed_bytes=10, residency=int(residency))
    draft.condition = int(SEALED)
    for name, value in others.items():
        setattr(draft, name, int(value))
    return frozen(draft)


def around(
    *,
    claimed: tuple[int, ...] = (),
    retry_at_ns: dict[int, int] | None = None,
    used_at_ns: dict[int, int] | None = None,
    pinned: tuple[int, ...] = (),
    now_ns: int = 1000,
) -> Circumstances:
    return Circumstances(
        claimed=claimed,
        retry_at_ns=retry_at_ns or {},
        used_at_ns=used_at_ns or {},
        is_pinned=pinned.__contains__,
        now_ns=now_ns,
    )


REFUSED: dict[str, Any] = {"failures": Failures.UPLOAD, "upload_reason": ReasonCode.UNAUTHORISED}
UNREACHED: dict[str, Any] = {"failures": Failures.UPLOAD, "upload_reason": ReasonCode.UNAVAILABLE}
DAMAGED: dict[str, Any] = {"failures": Failures.COMPRESSION, "compression_reason": ReasonCode.CODEC}
FULL_DISK: dict[str, Any] = {**DAMAGED, "compression_reason": ReasonCode.TRANSIENT}


@pytest.mark.parametrize(
    ("state", "is_wanted"),
    [
        (segment(0), True),
        (segment(0, pending=Pending.COMPRESSION), True),  # begun before a crash
        (segment(0, **FULL_DISK), True),
        (segment(0, condition=Condition.OPENED), False),  # still written
        (segment(0, condition=Condition.SEALED), False),  # nobody knows what it is
        (segment(0, T0 | T1), False),
        (segment(0, T0 | T2), False),
        (segment(0, T2), False),
        (segment(0, **DAMAGED), False),
    ],
)
def test_what_is_compressed(state: SegmentState, is_wanted: bool) -> None:
    assert (next_compression([state], around()) is not None) == is_wanted


@pytest.mark.parametrize(
    ("state", "is_wanted"),
    [
        (segment(0, T0 | T1), True),
        (segment(0, T1), True),
        (segment(0, T0 | T1, pending=Pending.UPLOAD), True),  # begun before a crash
        (segment(0, T0 | T1, **UNREACHED), True),
        (segment(0, T0), False),  # compressed first
        (segment(0, T0 | T1 | T2), False),
        (segment(0, T0 | T1, **REFUSED), False),
        (segment(0, T0 | T1, condition=Condition.OPENED), False),
    ],
)
def test_what_is_uploaded(state: SegmentState, is_wanted: bool) -> None:
    assert (next_upload([state], around()) is not None) == is_wanted


def test_the_oldest_comes_first_that_is_due_and_not_being_moved() -> None:
    states = [segment(number) for number in range(4)]
    circumstances = around(claimed=(0,), retry_at_ns={1: 1001, 2: 1000})
    chosen = next_compression(states, circumstances)
    assert chosen is not None
    assert chosen.segment_id == 2


def test_the_next_look_is_when_the_first_that_failed_is_due() -> None:
    states = [segment(0), segment(1, T0 | T1), segment(2, T0 | T1, **REFUSED), segment(3, T2)]
    times = {0: 1500, 1: 1200, 2: 1100, 3: 1050}
    assert next_due_ns(states, around(retry_at_ns=times)) == 200
    assert next_due_ns(states[2:], around(retry_at_ns=times)) is None
    assert next_due_ns(states, around(retry_at_ns={0: 900})) is None, "it is due already"


@pytest.mark.parametrize(
    ("state", "may_go"),
    [
        (segment(0, T0 | T1 | T2), True),
        (segment(0, T0 | T2), True),
        (segment(0, T0 | T1), False),  # nobody else has it
        (segment(0, T0), False),
        (segment(0, T0 | T2, pending=Pending.DELETE), False),
        (segment(0, T0 | T2, condition=SEALED | Condition.NEEDS_REPAIR), False),
        (segment(0, T0 | T2, condition=Condition.OPENED), False),
        (segment(7, T0 | T2), False),  # pinned
        (segment(8, T0 | T2), False),  # being moved
        (segment(0, T2), False),  # not here
    ],
)
def test_what_may_leave_tier_0(state: SegmentState, may_go: bool) -> None:
    circumstances = around(pinned=(7,), claimed=(8,))
    found = tier0_evictions([state], circumstances, excess_bytes=1)
    assert bool(list(found)) == may_go


@pytest.mark.parametrize(
    ("state", "may_go"),
    [
        (segment(0, T1 | T2), True),
        (segment(0, T0 | T1 | T2), False),  # its warm file goes with nothing gained
        (segment(0, T1), False),
        (segment(0, T1 | T2, pending=Pending.DELETE), False),
        (segment(0, T1 | T2, condition=SEALED | Condition.NEEDS_REPAIR), False),
        (segment(7, T1 | T2), False),
        (segment(0, T2), False),
    ],
)
def test_what_may_leave_tier_1(state: SegmentState, may_go: bool) -> None:
    found = tier1_evictions([state], around(pinned=(7,)), excess_bytes=1)
    assert bool(list(found)) == may_go


@pytest.mark.parametrize(
    ("excess_bytes", "gone"),
    [(-5, []), (0, []), (1, [2]), (100, [2]), (101, [2, 0]), (999, [2, 0, 1])],
)
def test_the_least_recently_used_go_until_enough_is_free(
    excess_bytes: int, gone: list[int]
) -> None:
    states = [segment(number, T0 | T2) for number in range(3)]
    circumstances = around(used_at_ns={0: 50, 1: 70})
    found = tier0_evictions(states, circumstances, excess_bytes=excess_bytes)
    assert [state.segment_id for state in found] == gone


def test_tier_1_counts_compressed_bytes() -> None:
    states = [segment(number, T1 | T2) for number in range(3)]
    found = tier1_evictions(states, around(), excess_bytes=11)
    assert [state.segment_id for state in found] == [0, 1]
