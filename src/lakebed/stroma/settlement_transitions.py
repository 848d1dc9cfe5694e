"""Decides the events of calls that settle, give back or extend leased messages. No I/O.

A call succeeds or fails as a whole. It is refused if one of its messages is not leased under the
caller's epoch: the lease has ended, and another caller may hold the message. As an exception,
messages that are already settled may be acked or dead-lettered again, because a caller repeats the
call if the answer was lost.
"""

from __future__ import annotations

from collections.abc import Sequence

from lakebed.stroma.errors import StaleLease
from lakebed.stroma.events import Acks, Event, Leases, Returns
from lakebed.stroma.format import (
    Ack,
    DeadLetter,
    LeaseRange,
    MarkInflight,
    Nack,
    ReturnRange,
)
from lakebed.stroma.message_status import SETTLED, MessageStatus, StatusKind
from lakebed.stroma.runs import Run
from lakebed.stroma.state import GroupState, Ranges


def ack(state: GroupState, ranges: Ranges, *, epoch: int) -> list[Event]:
    """Returns the events that settle the messages, so that they are not delivered again.

    Returns no events if all messages are already settled.
    """
    held = _held(state, ranges, epoch=epoch, may_be_settled=True)
    pieces = [(start, end) for start, end, _ in held]
    if not pieces:
        return []
    if len(pieces) == 1 and _is_one(*pieces[0]):
        return [Ack(pieces[0][0])]
    return [Acks(pieces)]


def dead_letter(state: GroupState, ranges: Ranges, *, epoch: int) -> list[Event]:
    """Returns the events that settle messages that were copied to the dead-letter topic."""
    held = _held(state, ranges, epoch=epoch, may_be_settled=True)
    return [DeadLetter(offset) for start, end, _ in held for offset in range(start, end)]


def nack(
    state: GroupState, ranges: Ranges, *, epoch: int, delay_ms: int, now_ms: int
) -> list[Event]:
    """Returns the events that give messages back, to be leased again after `delay_ms`."""
    held = _held(state, ranges, epoch=epoch)
    if not delay_ms and len(held) == 1 and _is_one(held[0][0], held[0][1]):
        return [Nack(held[0][0], epoch)]
    not_before_ms = now_ms + delay_ms if delay_ms else 0
    delay_s = -(-delay_ms // 1000)
    return [Returns([ReturnRange(s, e, not_before_ms, epoch, delay_s) for s, e, _ in held])]


def undo(state: GroupState, ranges: Ranges, *, epoch: int, now_ms: int) -> list[Event]:
    """Returns the events that give messages back as if they had not been leased."""
    held = _held(state, ranges, epoch=epoch)
    undone = [LeaseRange(s, e, now_ms, epoch, old.deliveries - 1, 0, 0) for s, e, old in held]
    return [Leases(undone), Returns([ReturnRange(s, e, 0, epoch, 0) for s, e, _ in held])]


def extend(
    state: GroupState, ranges: Ranges, *, epoch: int, lease_ms: int, now_ms: int
) -> list[Event]:
    """Returns the events that move the deadline of the messages' lease to `lease_ms` from now."""
    held = _held(state, ranges, epoch=epoch)
    deadline_ms = now_ms + lease_ms
    if len(held) == 1 and _is_one(held[0][0], held[0][1]) and lease_ms == state.config.lease_ms:
        return [MarkInflight(held[0][0], deadline_ms, epoch)]
    return [
        Leases(
            [
                LeaseRange(s, e, deadline_ms, epoch, old.deliveries, lease_ms, 0)
                for s, e, old in held
            ]
        )
    ]


def _held(
    state: GroupState, ranges: Ranges, *, epoch: int, may_be_settled: bool = False
) -> Sequence[Run[MessageStatus]]:
    """Returns the runs of `ranges`, after verifying that they are leased under `epoch`.

    Raises `StaleLease` if a message is not leased under `epoch`. With `may_be_settled`, settled
    messages are allowed, and left out of the result.
    """
    held: list[Run[MessageStatus]] = []
    stale: list[tuple[int, int]] = []
    if not may_be_settled:
        stale += [(start, min(end, state.base)) for start, end in ranges if start < state.base]
    for run in state.runs.within(ranges):
        status = run[2]
        if status.epoch == epoch and status.kind is StatusKind.LEASED:
            held.append(run)
        elif status is not SETTLED or not may_be_settled:
            stale.append((run[0], run[1]))
    stale += [(max(start, state.end), end) for start, end in ranges if end > state.end]
    if stale:
        raise StaleLease(stale, epoch=epoch)
    return held


def _is_one(start: int, end: int) -> bool:
    return end - start == 1
