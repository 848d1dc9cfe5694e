"""Waits until a log changes, for example until it has space for an append or a segment is sealed.

To miss no change, callers call `next_change` first, then check their condition, and then call
`wait`. A caller that waits for a flush runs it in its own thread if none is running, so a program
with a single thread does not wait forever.
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
    """Waits for changes of one log. Thread-safe; do not call it with the log's mutex held."""

    def __init__(self, context: LogContext, flusher: Flusher) -> None:
        self._state = context.state
        self._notifier = context.notifier
        self._clock = context.clock
        self._flusher = flusher

    def deadline_ns(self, timeout: float | None) -> int | None:
        """Returns the monotonic time, in ns, `timeout` seconds from now; None without a timeout."""
        return None if timeout is None else self._clock.monotonic_ns() + round(timeout * NS_PER_S)

    def next_change(self) -> Event:
        return self._notifier.next_change()

    def wait(self, kind: BackpressureKind, next_change: Event, deadline_ns: int | None) -> bool:
        """Waits until `next_change` is set; for kind flush, until the queued records are flushed.

        If flushes are already failing, waits for `next_change` whatever the kind. Returns False if
        the deadline has passed already or passes during a wait for `next_change`. Otherwise returns
        True, also if the deadline passes during a flush, and the caller must check its condition
        again. If the flush fails, raises its error.
        """
        seconds = None
        if deadline_ns is not None:
            seconds = (deadline_ns - self._clock.monotonic_ns()) / NS_PER_S
            if seconds <= 0:
                return False
        if kind is BackpressureKind.FLUSH and self._state.error is None:
            with contextlib.suppress(OutcomeUnknown):
                self._flusher.flush(None, seconds)
            return True
        return next_change.wait(seconds)
