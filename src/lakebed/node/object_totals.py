"""Caches the totals of the object store for metrics scrapes.

Computing the totals reads all metadata, which takes seconds with millions of objects. So a separate
thread computes them at most once a minute, and then pauses for at least a hundred times as long as
the computation took. Scrapes in between get the last totals.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final, NamedTuple

from lakebed.base.clock import NS_PER_S, Clock
from lakebed.base.errors import LakebedError
from lakebed.base.events import event
from lakebed.store.store import Store

if TYPE_CHECKING:
    from lakebed.seglake.meta.rows import Totals

FRESH_NS: Final = 60 * NS_PER_S
REST_PART: Final = 100  # the pause is at least this many times as long as counting took
ANSWER_S: Final = 0.5  # how long a scrape waits for a count

_log = logging.getLogger(__name__)


class _Count(NamedTuple):
    totals: Totals | None  # None: there is no object store, or counting failed
    due_ns: int  # when to count again


class ObjectTotals:
    """The cached totals of a store. Must be used in the thread of the event loop."""

    def __init__(
        self, store: Store, *, clock: Clock | None = None, answer_s: float = ANSWER_S
    ) -> None:
        self._store = store
        self._clock = clock or store.runner.clock
        self._answer_s = answer_s
        self._counting: asyncio.Future[_Count] | None = None
        self._known: Totals | None = None
        self._due_ns = 0

    async def snapshot(self) -> Totals | None:
        """Returns the latest totals, or None if there are none yet. Waits briefly if they are being
        counted.
        """
        if self._counting is None and self._clock.monotonic_ns() >= self._due_ns:
            self._counting = asyncio.ensure_future(asyncio.to_thread(self._count))
        counting = self._counting
        if counting is not None:
            await asyncio.wait([counting], timeout=self._answer_s)
            if counting.done() and counting is self._counting:
                self._counting = None
                totals, self._due_ns = counting.result()
                self._known = totals or self._known
        return self._known

    def _count(self) -> _Count:
        """Counts the objects, and returns the totals and when to count again. Runs in another
        thread.
        """
        started_ns = self._clock.monotonic_ns()
        totals = None
        try:
            totals = self._store.object_totals()
            if totals is None:
                return _Count(None, started_ns)
        except LakebedError as error:
            event(_log, "objects_not_counted", level=logging.WARNING, error=error)
        ended_ns = self._clock.monotonic_ns()
        return _Count(totals, ended_ns + max(FRESH_NS, REST_PART * (ended_ns - started_ns)))
