"""Waiting for a log to change, with a deadline: for space, a seal, or a record.

Take `next_change` first, then look at the condition, then wait for it: a change in between is not
missed. Who waits for a flush leads it, so that a lone caller does not wait for another thread.
"""

from __future__ import annotations

import contextlib

from lakebed.aof.context import LogContext
from lakebed.aof.errors import BackpressureKind
from lakebed.aof.flusher import Flusher
from lakebed.base.clock import NS_PER_S
from lakebed.base.errors import OutcomeUnknown
from lakebed.base.runner import Event


class ChangeWaiter:
    """Thread-safe; not to be used with the log's mutex held."""

    def __init__(self, context: LogContext, flusher: Flusher) -> None:
        self._state = context.state
        self._notifier = context.notifier
        self._clock = context.clock
        self._flusher = flusher

    def deadline_ns(self, timeout: float | None) -> int | None:
        """When that many seconds will have passed; None is never."""
        return None if timeout is None else self._clock.monotonic_ns() + round(timeout * NS_PER_S)

    def next_change(self) -> Event:
        return self._notifier.next_change()

    def wait(self, kind: BackpressureKind, seen: Event, deadline_ns: int | None) -> bool:
        """False if the deadline came first."""
        seconds = None
        if deadline_ns is not None:
            seconds = (deadline_ns - self._clock.monotonic_ns()) / NS_PER_S
            if seconds <= 0:
                return False
        if kind is BackpressureKind.FLUSH and self._state.error is None:
            with contextlib.suppress(OutcomeUnknown):
                self._flusher.flush(None, seconds)
            return True
        return seen.wait(seconds)
