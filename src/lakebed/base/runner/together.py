"""Several things opened at the same time, a few at once."""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

from lakebed.base.runner.protocol import Runner

AT_ONCE = 4  # opening mostly waits for syncs


class Closable(Protocol):
    def close(self) -> None: ...


Thing = TypeVar("Thing", bound=Closable)


def open_together(
    runner: Runner, openings: Sequence[Callable[[], Thing]], *, at_once: int = AT_ONCE
) -> list[Thing]:
    """All things, in their order; if one cannot be opened, the others are closed again."""
    outcomes: list[Thing | Exception | None] = [None] * len(openings)
    left = deque(enumerate(openings))  # taking from it is atomic

    def work_through() -> None:
        while left:
            try:
                index, opening = left.popleft()
            except IndexError:  # another was faster
                return
            try:
                outcomes[index] = opening()
            except Exception as error:  # noqa: BLE001 - raised below, when all have ended
                outcomes[index] = error

    with contextlib.ExitStack() as undo:
        others = min(at_once, len(openings)) - 1
        computations = [runner.compute(work_through) for _ in range(others)]
        try:
            work_through()
        finally:
            for computation in computations:
                computation.result()
        failures = [outcome for outcome in outcomes if isinstance(outcome, Exception)]
        opened: list[Thing] = []
        for outcome in outcomes:
            if outcome is not None and not isinstance(outcome, Exception):
                undo.callback(outcome.close)
                opened.append(outcome)
        if failures:
            raise failures[0]
        undo.pop_all()
    return opened
