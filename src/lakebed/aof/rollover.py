"""The states and transitions of the rollover from one segment to the next.

A full segment is handed over in five states. The writer requests a rollover (`REQUEST`). The
coordinator takes the request (`TAKE`) and acknowledges it or fails it. The writer continues in the
next segment (`PROMOTE`), and once the old one is sealed (`RELEASE`) it may request again. So at
most two segments are not finalised at any time: the active one and the one being sealed.
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
    FAIL = "fail"  # the coordinator could not admit it; nothing changed
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
    """Returns the next state. A signal that is not valid in the state is a bug in the caller."""
    assert (state, signal) in TRANSITIONS, (
        f"signal {signal.value!r} is not valid in state {state.value!r}"
    )
    return TRANSITIONS[state, signal]
