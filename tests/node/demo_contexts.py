"""What the demo's stations need, for tests that visit one of them: nobody watches."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from lakebed.base.runner import ThreadRunner
from lakebed.node.demo.context import DemoContext
from lakebed.node.demo.scale import scale_of


class Listening:
    """A watcher that keeps what was said."""

    def __init__(self) -> None:
        self.said: list[str] = []

    def begin(self, what: str, *, total: int = 0, unit: str = "rows") -> None: ...

    def advance(self, done: int, *, size_bytes: int = 0) -> None: ...

    def report_line(self, text: str) -> None:
        self.said.append(text)


@contextmanager
def context_in(folder: Path, *, events: int = 5_000) -> Iterator[DemoContext]:
    with ThreadRunner() as runner:
        yield DemoContext(
            folder=folder, watcher=Listening(), runner=runner, scale=scale_of(events), seed=7
        )


def found(context: DemoContext) -> dict[str, tuple[int, int]]:
    """The counts of its checks: expected and found."""
    return {check.what: (check.expected, check.found) for check in context.checks}
