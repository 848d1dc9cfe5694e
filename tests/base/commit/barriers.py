"""A barrier with a sink whose every move the test decides, and threads that call it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

from lakebed.base.commit import Barrier, CommitConfig
from lakebed.base.counters import Counters
from lakebed.base.errors import (
    InputError,
    LakebedError,
)
from lakebed.base.runner import ThreadRunner

Outcome = LakebedError | BaseException | None


class ListSink:
    """Keeps what is committed; can be held up, and made to fail."""

    def __init__(self) -> None:
        self.batches: list[list[str]] = []
        self.outcomes: list[Outcome] = []
        self.may_go = threading.Event()
        self.may_go.set()
        self.entered = threading.Semaphore(0)
        self.threads: list[str] = []

    def commit(self, items: Sequence[str]) -> Sequence[str | LakebedError]:
        self.entered.release()
        assert self.may_go.wait(30)
        outcome = self.outcomes.pop(0) if self.outcomes else None
        if outcome is not None:
            raise outcome
        self.batches.append(list(items))
        self.threads.append(threading.current_thread().name)
        return [InputError(item) if item.startswith("bad") else item.upper() for item in items]


def make_barrier(
    runner: ThreadRunner,
    sink: ListSink,
    *,
    recover: Callable[[LakebedError], ListSink] | None = None,
    counters: Counters | None = None,
    on_room: Callable[[], None] = lambda: None,
    **settings: int,
) -> Barrier[str, str]:
    barrier: Barrier[str, str] = Barrier(
        sink,
        name="a log",
        runner=runner,
        wake=lambda: task.wake(),
        config=CommitConfig(**settings),
        recover=recover,
        counters=counters,
        on_room=on_room,
    )
    task = runner.spawn("commit", barrier.step)
    return barrier


class Caller(threading.Thread):
    """A thread that commits one item and keeps how that ended."""

    def __init__(self, barrier: Barrier[str, str], item: str, **arguments: Any) -> None:
        super().__init__(name=f"caller of {item}", daemon=True)
        self.barrier = barrier
        self.item = item
        self.arguments = arguments
        self.result: str | None = None
        self.error: BaseException | None = None
        self.start()

    def run(self) -> None:
        try:
            self.result = self.barrier.commit(self.item, size=1, **self.arguments)
        except BaseException as error:  # noqa: BLE001 - looked at by the test
            self.error = error

    def joined(self) -> Caller:
        self.join(30)
        assert not self.is_alive(), "a caller was never woken"
        return self


def until(condition: Callable[[], bool]) -> None:
    pause = threading.Event()
    for _ in range(3000):
        if condition():
            return
        pause.wait(0.01)
    raise AssertionError("it never came to that")
