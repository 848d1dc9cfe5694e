"""A progress bar on standard error: for a person, and only if the work takes over a second."""

from __future__ import annotations

import sys

from lakebed.base.clock import NS_PER_S, Clock, SystemClock

_BAR_CHARACTERS = 30
_REDRAW_NS = NS_PER_S // 10


class Progress:
    """Call `update` as often as there is news; `finish` clears the line. Nothing without a tty."""

    def __init__(self, what: str, *, clock: Clock | None = None) -> None:
        self._what = what
        self._clock = clock or SystemClock()
        self._next_ns = self._clock.monotonic_ns() + NS_PER_S
        self._is_wanted = sys.stderr is not None and sys.stderr.isatty()
        self._is_drawn = False

    def update(self, done: int, total: int) -> None:
        if self._is_due():
            filled = _BAR_CHARACTERS * done // max(total, 1)
            bar = "#" * filled + "-" * (_BAR_CHARACTERS - filled)
            self._draw(f"\r{self._what} [{bar}] {done} of {total}\x1b[K")

    def count(self, done: int, unit: str) -> None:
        """As `update`, where nobody knows how much there will be."""
        if self._is_due():
            self._draw(f"\r{self._what} {done:,} {unit}\x1b[K")

    def finish(self) -> None:
        if self._is_drawn:
            self._draw("\r\x1b[K")

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *_: object) -> None:
        self.finish()

    def _is_due(self) -> bool:
        now_ns = self._clock.monotonic_ns()
        if not self._is_wanted or now_ns < self._next_ns:
            return False
        self._next_ns = now_ns + _REDRAW_NS
        return True

    def _draw(self, text: str) -> None:
        sys.stderr.write(text)
        sys.stderr.flush()
        self._is_drawn = True
