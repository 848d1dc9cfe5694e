"""Shows progress on standard error, if standard error is a terminal.

`rich` is imported only when something is drawn, which most commands never do.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, TextIO

from lakebed.base.clock import NS_PER_S, Clock, SystemClock
from lakebed.cli.report import one_line

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.live import Live

REDRAW_NS = NS_PER_S // 10
_BAR_CHARACTERS = 30


class TerminalBar:
    """A progress line that is redrawn in place: a name, a bar if the total is known, and a text."""

    def __init__(self, stream: TextIO | None) -> None:
        self._stream = stream if stream is not None and stream.isatty() else None
        self._live: Live | None = None

    def draw(self, name: str, text: str = "", *, done: int = 0, total: int | None = None) -> None:
        if self._stream is not None:
            if self._live is None:
                self._live = _started(self._stream)
            self._live.update(_line(name, text, done=done, total=total), refresh=True)

    def clear(self) -> None:
        """Removes the line. Idempotent."""
        if self._live is not None:
            self._live.stop()
            self._live = None


def _started(stream: TextIO) -> Live:
    from rich.console import Console
    from rich.live import Live

    live = Live(
        console=Console(file=stream, highlight=False),
        auto_refresh=False,
        redirect_stdout=False,
        redirect_stderr=False,
        transient=True,
    )
    live.start()
    live.console.show_cursor()  # a process that is killed must not leave it hidden
    return live


def _line(name: str, text: str, *, done: int, total: int | None) -> RenderableType:
    from rich.progress_bar import ProgressBar
    from rich.table import Table
    from rich.text import Text

    cells: list[RenderableType] = [Text(one_line(name))]
    if total is not None:
        cells.append(ProgressBar(total=total, completed=done, width=_BAR_CHARACTERS))
    cells.append(Text(one_line(text)))
    line = Table.grid(padding=(0, 1))
    line.add_row(*cells)
    return line


class Progress:
    """Shows the progress of a command that takes longer than a second. On exit, removes the
    line."""

    def __init__(self, what: str, *, clock: Clock | None = None) -> None:
        self._what = what
        self._clock = clock or SystemClock()
        self._next_ns = self._clock.monotonic_ns() + NS_PER_S
        self._bar = TerminalBar(sys.stderr)

    def update(self, done: int, total: int) -> None:
        """Reports progress. May be called often: the line is redrawn at most ten times a second."""
        if self._is_due():
            self._bar.draw(self._what, f"{done:,} of {total:,}", done=done, total=max(total, 1))

    def count(self, done: int, unit: str) -> None:
        """Like `update`, for work whose total is not known."""
        if self._is_due():
            self._bar.draw(self._what, f"{done:,} {unit}")

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.clear()

    def _is_due(self) -> bool:
        now_ns = self._clock.monotonic_ns()
        if now_ns < self._next_ns:
            return False
        self._next_ns = now_ns + REDRAW_NS
        return True
