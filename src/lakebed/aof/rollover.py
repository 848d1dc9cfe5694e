"""The rollover handshake, as data.

A full segment is handed over in five states. The writer asks (`REQUEST`), the coordinator takes
the request (`TAKE`) and acknowledges it or fails it, the writer goes on in the next segment
(`PROMOTE`), and when the old one is sealed (`RELEASE`) the next request may come. So at most two
segments are not finalised at any time: the one that is written and the one that is being sealed.
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
    REQUEST = "request"  # the writer's segment is full, or to be sealed
    TAKE = "take"  # the coordinator has the request
    ACKNOWLEDGE = "acknowledge"  # the next segment may be used
    FAIL = "fail"  # the coordinator could not; everything is as before
    PROMOTE = "promote"  # the writer uses the next segment
    RELEASE = "release"  # the segment before it is finalised


TRANSITIONS: Mapping[tuple[State, Signal], State] = {
    (State.ACTIVE, Signal.REQUEST): State.ROLLOVER_REQUESTED,
    (State.ROLLOVER_REQUESTED, Signal.TAKE): State.COORDINATOR_PROCESSING,
    (State.COORDINATOR_PROCESSING, Signal.ACKNOWLEDGE): State.ACK_READY,
    (State.COORDINATOR_PROCESSING, Signal.FAIL): State.ACTIVE,
    (State.ACK_READY, Signal.PROMOTE): State.POST_ACK_CLEANUP,
    (State.POST_ACK_CLEANUP, Signal.RELEASE): State.ACTIVE,
}


def after(state: State, signal: Signal) -> State:
    """The next state; a signal that a state does not know is our own mistake."""
    assert (state, signal) in TRANSITIONS, f"{signal.value} in state {state.value}"
    return TRANSITIONS[state, signal]
