"""Delays an interrupt (Ctrl-C), so that it ends a command between two steps, never within a write.

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
    """Delays interrupts. Has no effect in other threads, because only the main thread gets them.

    If the process ignores interrupts, as background jobs of shell scripts do, they stay ignored. A
    handler that was installed before (Spark's driver installs one that cancels its jobs) is called
    for an interrupt that is not delayed.
    """

    def __init__(self) -> None:
        self._is_kept = False
        self._passes = False
        self._before: _Handler | None = None
        self.has_come = False  # also if the interrupt was caught

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
        """Does not delay interrupts within the block. Raises a delayed interrupt when the block
        begins."""
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
