"""The queue of requests that wait for a message to lease in a group.

A change of the group wakes one of them.

If each change woke all waiters, a hundred of them would compete for one message. So a change wakes
only the first waiter. A waiter that leases something, or fails, wakes the next, because there may
be more messages. A waiter that finds nothing goes to the end of the queue. A lease or a delay that
ends counts as a change; a timer is set for the earliest of them.

No wake-up is lost: a waiter joins the queue before its first attempt to lease, and a waiter that
was woken but leaves without another attempt wakes the next one.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from lakebed.base.clock import NS_PER_S
from lakebed.http_api.wake_event import WakeEvent
from lakebed.store.group import Group


class LeaseQueue:
    """The requests that wait for messages of one group. Used in the event loop's thread."""

    def __init__(self, group: Group) -> None:
        self._group = group
        self._waiters: OrderedDict[WakeEvent, None] = OrderedDict()  # not woken yet, in order
        self._count = 0  # including waiters that were woken
        self._timer: asyncio.TimerHandle | None = None
        self._loop = asyncio.get_running_loop()
        self._stop = group.on_change(self._wake_from_any_thread)

    @contextmanager
    def place(self) -> Iterator[WakeEvent]:
        """Adds a waiter to the end of the queue while the context is open. Yields the waiter's
        event."""
        wake_event = WakeEvent()
        self._count += 1
        self._waiters[wake_event] = None
        try:
            yield wake_event
        finally:
            self._count -= 1
            if wake_event in self._waiters:
                del self._waiters[wake_event]
            else:
                self.wake_next()

    @property
    def is_empty(self) -> bool:
        return not self._count

    def wait_again(self, wake_event: WakeEvent) -> None:
        """Puts a waiter that was woken back into the queue, before its next attempt to lease."""
        self._waiters[wake_event] = None

    def wake_next(self) -> None:
        """Wakes the first waiter, because there may be something to lease."""
        if self._waiters:
            wake_event, _ = self._waiters.popitem(last=False)
            wake_event.set_in_loop()

    def set_timer(self) -> None:
        """Sets a timer that wakes a waiter when a message may become available by itself.

        That is when the earliest lease, delay or schedule of the group ends. The lease handler
        calls this when it has found no message.
        """
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        due_ns = self._group.due_ns()
        if due_ns is not None:
            self._timer = self._loop.call_later(due_ns / NS_PER_S, self.wake_next)

    def close(self) -> None:
        self._stop()
        if self._timer is not None:
            self._timer.cancel()

    def _wake_from_any_thread(self) -> None:
        with suppress(RuntimeError):  # the loop has ended: nothing waits
            self._loop.call_soon_threadsafe(self.wake_next)


class LeaseQueues:
    """The queues of all groups that have waiters."""

    def __init__(self) -> None:
        self._queues: dict[Group, LeaseQueue] = {}

    @contextmanager
    def place(self, group: Group) -> Iterator[tuple[LeaseQueue, WakeEvent]]:
        """Adds a waiter to the queue of that group while the context is open. Yields the queue and
        the waiter's event.

        The queue exists only while it has waiters.
        """
        queue = self._queues.get(group)
        if queue is None:
            queue = self._queues[group] = LeaseQueue(group)
        try:
            with queue.place() as wake_event:
                yield queue, wake_event
        finally:
            if queue.is_empty:
                queue.close()
                del self._queues[group]
