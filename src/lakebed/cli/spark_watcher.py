"""Shows the progress of a job on a terminal: a bar, a count and a rate."""

from __future__ import annotations

import sys
from typing import TextIO

from lakebed.base.clock import NS_PER_S
from lakebed.base.runner import Runner
from lakebed.cli.output import Output
from lakebed.cli.progress import REDRAW_NS, TerminalBar
from lakebed.cli.values import size_text


class TerminalWatcher:
    """A `Watcher` that shows progress on a terminal. Thread-safe: a lock is held while it draws."""

    def __init__(self, output: Output, *, runner: Runner, stream: TextIO | None = None) -> None:
        """Draws to `stream`, by default to standard error, if that is a terminal."""
        self._output = output
        self._clock = runner.clock
        self._bar = TerminalBar(sys.stderr if stream is None else stream)
        self._lock = runner.mutex()
        self._what, self._unit = "", "rows"  # with the lock, as all below
        self._total = 0
        self._began_ns = self._next_ns = 0

    def begin(self, what: str, *, total: int = 0, unit: str = "rows") -> None:
        with self._lock:
            self._what, self._total, self._unit = what, total, unit
            self._began_ns = self._next_ns = self._clock.monotonic_ns()
            self._bar.draw(what)

    def advance(self, done: int, *, size_bytes: int = 0) -> None:
        with self._lock:
            now_ns = self._clock.monotonic_ns()
            if now_ns >= self._next_ns:
                self._next_ns = now_ns + REDRAW_NS
                seconds = max(now_ns - self._began_ns, 1) / NS_PER_S
                self._bar.draw(
                    self._what,
                    self._text(done, size_bytes, seconds),
                    done=min(done, self._total),
                    total=self._total or None,
                )

    def report_line(self, text: str) -> None:
        with self._lock:
            self._bar.clear()
            self._output.line(text)

    def finish(self) -> None:
        """Removes the bar. Idempotent."""
        with self._lock:
            self._bar.clear()

    def _text(self, done: int, size_bytes: int, seconds: float) -> str:
        text = f"{done:,} {self._unit}, {done / seconds:,.0f} {self._unit}/s"
        if self._total:
            text = f"{min(done / self._total, 1.0):4.0%} {text}"
        if size_bytes:
            text += f", {size_text(size_bytes)}, {size_text(int(size_bytes / seconds))}/s"
        return text
