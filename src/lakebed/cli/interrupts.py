"""An interrupt (Ctrl-C) that waits: it ends a command between two steps, never within a write.

    with HeldInterrupts() as interrupts:
        while ...:
            with interrupts.let_through():
                ...                         # waits for others: an interrupt ends it at once
            ...                             # writes: an interrupt is kept until the next place
            interrupts.raise_kept()

An interrupt within a commit would leave open whether it happened, and the log refuses writes from
then on. A second interrupt does not wait: whoever asks twice means it.
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
    """Outside of the main thread, where no interrupts come, it does nothing.

    Interrupts that the process ignores (`nohup`) stay ignored. Whatever else would have handled
    them (Spark's driver cancels its jobs first) does so when they are let through.
    """

    def __init__(self) -> None:
        self._is_kept = False
        self._passes = False
        self._before: _Handler | None = None
        self.has_come = False  # whether or not somebody caught it

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
        """In here an interrupt is raised at once, and so is one that was kept."""
        self._passes = True
        try:
            self.raise_kept()
            yield
        finally:
            self._passes = False

    def raise_kept(self) -> None:
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
