"""The handshake as data: every state, every signal, and what the log makes of them."""

from __future__ import annotations

from itertools import product

import pytest

from lakebed.aof.rollover import TRANSITIONS, Signal, State, after

ROUND = [
    (Signal.REQUEST, State.ROLLOVER_REQUESTED),
    (Signal.TAKE, State.COORDINATOR_PROCESSING),
    (Signal.ACKNOWLEDGE, State.ACK_READY),
    (Signal.PROMOTE, State.POST_ACK_CLEANUP),
    (Signal.RELEASE, State.ACTIVE),
]


def test_a_round_leads_through_every_state_and_back() -> None:
    state = State.ACTIVE
    seen = [state]
    for signal, expected in ROUND:
        state = after(state, signal)
        assert state is expected
        seen.append(state)
    assert set(seen) == set(State)


def test_a_failure_leaves_everything_as_it_was() -> None:
    state = after(after(State.ACTIVE, Signal.REQUEST), Signal.TAKE)
    assert after(state, Signal.FAIL) is State.ACTIVE


def test_nothing_rolls_over_before_the_last_one_is_finalised() -> None:
    for state in set(State) - {State.ACTIVE}:
        assert (state, Signal.REQUEST) not in TRANSITIONS


@pytest.mark.parametrize(
    ("state", "signal"), [pair for pair in product(State, Signal) if pair not in TRANSITIONS]
)
def test_a_signal_out_of_place_is_our_own_mistake(state: State, signal: Signal) -> None:
    with pytest.raises(AssertionError, match=signal.value):
        after(state, signal)


def test_every_state_is_left_and_entered() -> None:
    assert {state for state, _ in TRANSITIONS} == set(State)
    assert set(TRANSITIONS.values()) == set(State)
