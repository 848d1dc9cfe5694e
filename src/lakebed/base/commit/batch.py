"""Batches of items that are committed together, and the tickets that callers wait on."""

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

    The barrier's mutex guards all fields except `is_awaited`, `results` and `error`. The leader
    sets `results` or `error` before `is_done`; they do not change after that.
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
        self.done = done  # wakes waiting callers, shortly after `is_done`
        self.results: Sequence[Result | LakebedError] = ()
        self.error: LakebedError | None = None
        self.callbacks: list[Callable[[], None]] = []
        self.is_awaited = False  # commit without delay; set by the caller that then wakes `step`
        # The heir is the first caller that waits for this batch while another caller leads. `turn`
        # is set when the heir gets the lead or the batch is done.
        self.turn: Event | None = None
        self.has_heir = False
        self.is_lead_given = False

    def result(self, index: int) -> Result:
        """Returns the result of the item at `index`, or raises its error. The batch must be
        done.
        """
        if self.error is not None:
            raise self.error
        result = self.results[index]
        if isinstance(result, LakebedError):
            raise result
        return result

    def notify(self) -> None:
        """Wakes waiting callers and calls the callbacks. If a callback raises, the others are still
        called.
        """
        self.done.set()
        if self.turn is not None:
            self.turn.set()
        for callback in self.callbacks:
            try:
                callback()
            except Exception:  # noqa: BLE001 - the other callbacks must be called
                _log.exception("a completion callback failed")


class BatchWaiter(Protocol):
    """The methods of a barrier that a ticket uses."""

    def wait_for(self, batch: Batch[Any, Any], timeout: float | None) -> bool: ...

    def when_done(self, batch: Batch[Any, Any], callback: Callable[[], None]) -> None: ...


class Ticket(Generic[Result]):
    """The promise of the result of one item. It knows the item's batch and its index there."""

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

        Raises `OutcomeUnknown` after `timeout` seconds; the item may still be committed later. The
        time-out does not apply while this caller runs the commit itself as the leader.
        """
        if not self._barrier.wait_for(self.batch, timeout):
            raise OutcomeUnknown(
                f"the write was not committed within {timeout} s, and may still be committed later"
            )
        return self.batch.result(self._index)

    def result(self) -> Result:
        """Returns the result or raises the error. The ticket must be done."""
        assert self.is_done, "the item is not committed yet"
        return self.batch.result(self._index)

    def when_done(self, callback: Callable[[], None]) -> None:
        """Calls the callback when the item's batch is done, or immediately if it already is.

        The callback may run in any thread, and must be fast, because other callers wait for it. One
        callback per batch is enough; tickets with the same `batch` complete together.
        """
        self._barrier.when_done(self.batch, callback)
