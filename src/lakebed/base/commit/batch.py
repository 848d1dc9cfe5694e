"""Items that are committed together, and the tickets of those who handed them over."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any, Generic, Protocol, TypeVar

from lakebed.base.errors import LakebedError, OutcomeUnknown
from lakebed.base.runner.protocol import Event

Item = TypeVar("Item")
Result = TypeVar("Result")

_log = logging.getLogger(__name__)


class Batch(Generic[Item, Result]):
    """What one commit covers: one completion for all of it.

    Its barrier's mutex guards everything here until `is_done`, but for `is_awaited`; from then on
    nothing changes.
    """

    __slots__ = (
        "callbacks",
        "count",
        "created_ns",
        "done",
        "error",
        "has_heir",
        "is_awaited",
        "is_done",
        "is_lead_given",
        "items",
        "results",
        "size",
        "turn",
    )

    def __init__(self, *, done: Event, created_ns: int) -> None:
        self.created_ns = created_ns
        self.items: list[Item] = []
        self.size = 0
        self.count = 0
        self.is_done = False
        self.done = done  # wakes those who wait, some time after `is_done`
        self.results: Sequence[Result | LakebedError] = ()
        self.error: LakebedError | None = None
        self.callbacks: list[Callable[[], None]] = []
        self.is_awaited = False  # it waits for no company; set by whoever wakes `step` then
        # The heir is the first to wait while another leads: `turn` tells it to lead, or that
        # the batch is done.
        self.turn: Event | None = None
        self.has_heir = False
        self.is_lead_given = False

    def result(self, index: int) -> Result:
        """Of a batch that is done."""
        if self.error is not None:
            raise self.error
        result = self.results[index]
        if isinstance(result, LakebedError):
            raise result
        return result

    def notify(self) -> None:
        """Wake those who wait and call those who asked; none who fails harms the others."""
        self.done.set()
        if self.turn is not None:
            self.turn.set()
        for callback in self.callbacks:
            try:
                callback()
            except Exception:  # noqa: BLE001 - whatever a callback raises
                _log.exception("a completion callback failed")


class BatchWaiter(Protocol):
    """What a ticket needs of its barrier."""

    def wait_for(self, batch: Batch[Any, Any], timeout: float | None) -> bool: ...

    def when_done(self, batch: Batch[Any, Any], callback: Callable[[], None]) -> None: ...


class Ticket(Generic[Result]):
    """The promise of an item's result: in which batch the item is, and how it fared."""

    __slots__ = ("_barrier", "_index", "batch")

    def __init__(self, barrier: BatchWaiter, batch: Batch[Any, Result], index: int) -> None:
        self._barrier = barrier
        self._index = index
        self.batch = batch

    @property
    def is_done(self) -> bool:
        return self.batch.is_done

    def wait(self, timeout: float | None = None) -> Result:
        """The item's result once it is durable, or the error it failed with.

        `OutcomeUnknown` if others take longer than `timeout` seconds: the item stays queued. Who
        waits may be the one that commits, and that is not cut short.
        """
        if not self._barrier.wait_for(self.batch, timeout):
            raise OutcomeUnknown(
                f"not committed within {timeout} s: it is queued, and may still be"
            )
        return self.batch.result(self._index)

    def result(self) -> Result:
        """As `wait`, of a ticket that `is_done`."""
        assert self.is_done, "the result is not there yet"
        return self.batch.result(self._index)

    def when_done(self, callback: Callable[[], None]) -> None:
        """Call once the item's batch is done (now, if it is), in whatever thread that is.

        Asking once per batch is enough: `ticket.batch` tells which tickets share one. The
        callback must be quick, for others wait behind it.
        """
        self._barrier.when_done(self.batch, callback)
