"""Delays an interrupt (Ctrl-C), so that it ends a command between two steps and not within a write.

    with HeldInterrupts() as interrupts:
        while ...:
            with interrupts.let_through():
                ...                         # waits for input: an interrupt ends it immediately
            ...                             # writes: an interrupt waits for the next safe point
            interrupts.raise_kept()

After an interrupt within a commit it would be unknown whether the commit happened, and the log
would refuse further writes. A second interrupt is not delayed.
"""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator
from types import FrameType, TracebackType
from typing import Self

_Handler = Callable[[int, FrameType | None], object]


class HeldInterrupts:
    """Delays interrupts. Has no effect outside the main thread, which alone gets interrupts.

    If the process ignores interrupts, as background jobs of shell scripts do, they stay ignored.
    For an interrupt that is not delayed, the handler that was installed before is called (Spark's
    driver installs a handler that cancels its jobs).
    """

    def __init__(self) -> None:
        self._is_kept = False
        self._passes = False
        self._before: _Handler | None = None
        self.has_come = False  # whether there was an interrupt, even if it was caught

    def __enter__(self) -> Self:
        before = signal.getsignal(signal.SIGINT)
        if callable(before) and threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, self._on_interrupt)
            self._before = before
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._before is not None:
            signal.signal(signal.SIGINT, self._before)
        if error is None:
            self.raise_kept()

    @contextlib.contextmanager
    def let_through(self) -> Iterator[None]:
        """Does not delay interrupts within the block. If an interrupt was delayed before, raises
        `KeyboardInterrupt` when the block begins."""
        self._passes = True
        try:
            self.raise_kept()
            yield
        finally:
            self._passes = False

    def raise_kept(self) -> None:
        """Raises `KeyboardInterrupt` if an interrupt was delayed and not raised yet."""
        if self._is_kept:
            self._is_kept = False
            raise KeyboardInterrupt

    def _on_interrupt(self, number: int, frame: FrameType | None) -> None:
        self.has_come = True
        if self._passes or self._is_kept:
            if self._before is not None:
                self._before(number, frame)
            raise KeyboardInterrupt
        self._is_kept = True
