"""Who waits for something to lease in a group: one at a time is told to look.

If all were told of each change, a hundred would look for what one of them gets. So a change tells
the first; whoever finds something, or fails, tells the next, for there may be more; whoever finds
nothing waits again, behind the others. The end of a lease or a delay counts as a change: the
earliest one known has a timer.

Nobody is forgotten: a place is taken before the first look, and who leaves after it was told, and
did not look again, tells the next.
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
    """Of one group, in one loop's thread."""

    def __init__(self, group: Group) -> None:
        self._group = group
        self._waiters: OrderedDict[WakeEvent, None] = OrderedDict()  # not told yet, in their order
        self._count = 0  # with those who were told, and look
        self._timer: asyncio.TimerHandle | None = None
        self._loop = asyncio.get_running_loop()
        self._stop = group.on_change(self._wake_from_any_thread)

    @contextmanager
    def place(self) -> Iterator[WakeEvent]:
        """A bell for one who looks, and waits; at the end of the queue."""
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
        """Before another look."""
        self._waiters[wake_event] = None

    def wake_next(self) -> None:
        """There may be something."""
        if self._waiters:
            wake_event, _ = self._waiters.popitem(last=False)
            wake_event.set_in_loop()

    def set_timer(self) -> None:
        """After a look that found nothing: time alone may bring something."""
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
        with suppress(RuntimeError):  # the loop has ended: nobody waits
            self._loop.call_soon_threadsafe(self.wake_next)


class LeaseQueues:
    """Of all groups in which somebody waits."""

    def __init__(self) -> None:
        self._queues: dict[Group, LeaseQueue] = {}

    @contextmanager
    def place(self, group: Group) -> Iterator[tuple[LeaseQueue, WakeEvent]]:
        """In the queue of that group, which is there while somebody is in it."""
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
