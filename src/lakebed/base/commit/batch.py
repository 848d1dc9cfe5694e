"""Batches of items that are committed together, and the tickets of their callers."""

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
    """The items of one commit, which complete together.

    The barrier's mutex guards all fields except `is_awaited` until `is_done`; after that nothing
    changes.
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
        self.done = done  # wakes waiting callers, some time after `is_done`
        self.results: Sequence[Result | LakebedError] = ()
        self.error: LakebedError | None = None
        self.callbacks: list[Callable[[], None]] = []
        self.is_awaited = False  # commit without delay; set by the caller that then wakes `step`
        # The heir is the first to wait while another leads: `turn` signals that it leads, or that
        # the batch is done.
        self.turn: Event | None = None
        self.has_heir = False
        self.is_lead_given = False

    def result(self, index: int) -> Result:
        """Returns the result of an item of a batch that is done."""
        if self.error is not None:
            raise self.error
        result = self.results[index]
        if isinstance(result, LakebedError):
            raise result
        return result

    def notify(self) -> None:
        """Wakes waiting callers and runs callbacks. A callback that fails does not affect the
        others.
        """
        self.done.set()
        if self.turn is not None:
            self.turn.set()
        for callback in self.callbacks:
            try:
                callback()
            except Exception:  # noqa: BLE001 - whatever a callback raises
                _log.exception("a completion callback failed")


class BatchWaiter(Protocol):
    """The part of a barrier that a ticket uses."""

    def wait_for(self, batch: Batch[Any, Any], timeout: float | None) -> bool: ...

    def when_done(self, batch: Batch[Any, Any], callback: Callable[[], None]) -> None: ...


class Ticket(Generic[Result]):
    """The promise of an item's result: the batch that contains it, and the outcome."""

    __slots__ = ("_barrier", "_index", "batch")

    def __init__(self, barrier: BatchWaiter, batch: Batch[Any, Result], index: int) -> None:
        self._barrier = barrier
        self._index = index
        self.batch = batch

    @property
    def is_done(self) -> bool:
        return self.batch.is_done

    def wait(self, timeout: float | None = None) -> Result:
        """Returns the item's result once it is durable, or raises the error it failed with.

        Raises `OutcomeUnknown` after `timeout` seconds; the item stays queued. A caller that leads
        the commit itself is not interrupted by the time-out.
        """
        if not self._barrier.wait_for(self.batch, timeout):
            raise OutcomeUnknown(
                f"not committed within {timeout} s: it is queued, and may still be"
            )
        return self.batch.result(self._index)

    def result(self) -> Result:
        """Returns the result of a ticket that `is_done`."""
        assert self.is_done, "the result is not there yet"
        return self.batch.result(self._index)

    def when_done(self, callback: Callable[[], None]) -> None:
        """Calls the callback once the item's batch is done (now, if it is), in whatever thread that
        is.

        One callback per batch is enough: `ticket.batch` shows which tickets share one. It must be
        quick, because other callers wait for it.
        """
        self._barrier.when_done(self.batch, callback)
