"""A job's progress on a terminal: a bar, what is done, and how fast. Elsewhere nothing is drawn."""

from __future__ import annotations

import sys
from typing import TextIO

from lakebed.base.clock import NS_PER_S
from lakebed.base.runner import Runner
from lakebed.cli.manifest_words import size_text
from lakebed.cli.output import Output, one_line

_BAR_CHARACTERS = 30
_REDRAW_NS = NS_PER_S // 10


class TerminalWatcher:
    """A `Watcher`. Any thread may call it; its lock is held while it draws."""

    def __init__(self, output: Output, *, runner: Runner, stream: TextIO | None = None) -> None:
        """Draws to `stream`, else to standard error, if that is a terminal."""
        self._output = output
        self._clock = runner.clock
        self._stream = sys.stderr if stream is None else stream
        self._is_wanted = self._stream is not None and self._stream.isatty()
        self._lock = runner.mutex()
        self._is_drawn = False  # with the lock, as all below
        self._what, self._unit = "", "rows"
        self._total = 0
        self._began_ns = self._next_ns = 0

    def begin(self, what: str, *, total: int = 0, unit: str = "rows") -> None:
        with self._lock:
            self._what, self._total, self._unit = what, total, unit
            self._began_ns = self._next_ns = self._clock.monotonic_ns()
            self._draw(what)

    def advance(self, done: int, *, size_bytes: int = 0) -> None:
        with self._lock:
            now_ns = self._clock.monotonic_ns()
            if now_ns >= self._next_ns:
                self._next_ns = now_ns + _REDRAW_NS
                seconds = max(now_ns - self._began_ns, 1) / NS_PER_S
                self._draw(self._text(done, size_bytes, seconds))

    def report_line(self, text: str) -> None:
        with self._lock:
            self._clear()
            self._output.line(text)

    def finish(self) -> None:
        """Take the bar away. Idempotent."""
        with self._lock:
            self._clear()

    def _text(self, done: int, size_bytes: int, seconds: float) -> str:
        bar = ""
        if self._total:
            share = min(done / self._total, 1.0)
            filled = int(_BAR_CHARACTERS * share)
            bar = f" [{'#' * filled}{'-' * (_BAR_CHARACTERS - filled)}] {share:4.0%}"
        text = f"{self._what}{bar} {done:,} {self._unit}, {done / seconds:,.0f} {self._unit}/s"
        if size_bytes:
            text += f", {size_text(size_bytes)}, {size_text(int(size_bytes / seconds))}/s"
        return text

    def _draw(self, text: str) -> None:
        if self._is_wanted:
            self._stream.write(f"\r{one_line(text)}\x1b[K")
            self._stream.flush()
            self._is_drawn = True

    def _clear(self) -> None:
        if self._is_drawn:
            self._stream.write("\r\x1b[K")
            self._stream.flush()
            self._is_drawn = False
