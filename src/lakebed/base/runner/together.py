"""Several pieces of work at the same time, a few at once."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import TypeVar

from lakebed.base.runner.protocol import Runner

Result = TypeVar("Result")


def run_together(
    runner: Runner, works: Sequence[Callable[[], Result]], *, at_once: int
) -> list[Result | Exception]:
    """Do all of them, each whatever becomes of the others; what each returned or raised."""
    outcomes: list[Result | Exception | None] = [None] * len(works)
    left = deque(enumerate(works))  # taking from it is atomic

    def work_through() -> None:
        while left:
            try:
                index, work = left.popleft()
            except IndexError:  # another was faster
                return
            try:
                outcomes[index] = work()
            except Exception as error:  # noqa: BLE001 - it is the outcome
                outcomes[index] = error

    others = min(at_once, len(works)) - 1
    computations = [runner.compute(work_through) for _ in range(others)]
    try:
        work_through()
    finally:
        for computation in computations:
            computation.result()
    return outcomes  # type: ignore[return-value]
