"""The states and transitions of the rollover from one segment to the next.

A rollover goes through five states. The writer requests a rollover (`REQUEST`). The coordinator
takes the request (`TAKE`), and acknowledges it (`ACKNOWLEDGE`) or refuses it (`FAIL`). The writer
continues in the next segment (`PROMOTE`), and may request the next rollover once the old segment is
sealed (`RELEASE`). So at most two segments are not sealed: the active one and the one before it.
Only when a log is opened after a crash may there be more.

In a log with tiering on, the coordinator is `tiers.admission`. With tiering off, the writer takes
and acknowledges its requests itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum


class State(Enum):
    ACTIVE = "active"
    ROLLOVER_REQUESTED = "rollover requested"
    COORDINATOR_PROCESSING = "coordinator processing"
    ACK_READY = "ack ready"
    POST_ACK_CLEANUP = "post-ack cleanup"


class Signal(Enum):
    REQUEST = "request"  # the writer's segment is full, or must be sealed
    TAKE = "take"  # the coordinator has the request
    ACKNOWLEDGE = "acknowledge"  # the next segment may be used
    FAIL = "fail"  # the coordinator could not record the rollover; nothing changed
    PROMOTE = "promote"  # the writer uses the next segment
    RELEASE = "release"  # the previous segment is sealed


TRANSITIONS: Mapping[tuple[State, Signal], State] = {
    (State.ACTIVE, Signal.REQUEST): State.ROLLOVER_REQUESTED,
    (State.ROLLOVER_REQUESTED, Signal.TAKE): State.COORDINATOR_PROCESSING,
    (State.COORDINATOR_PROCESSING, Signal.ACKNOWLEDGE): State.ACK_READY,
    (State.COORDINATOR_PROCESSING, Signal.FAIL): State.ACTIVE,
    (State.ACK_READY, Signal.PROMOTE): State.POST_ACK_CLEANUP,
    (State.POST_ACK_CLEANUP, Signal.RELEASE): State.ACTIVE,
}


def after(state: State, signal: Signal) -> State:
    """Returns the state that follows `state` on `signal`.

    Fails an assertion if the signal is not valid in that state, which is a bug in the caller.
    """
    assert (state, signal) in TRANSITIONS, (
        f"signal {signal.value!r} is not valid in state {state.value!r}"
    )
    return TRANSITIONS[state, signal]
