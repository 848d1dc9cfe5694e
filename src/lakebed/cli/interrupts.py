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
from collections.abc import Iterator
from types import FrameType, TracebackType
from typing import Self


class HeldInterrupts:
    """Outside of the main thread, where no interrupts come, it does nothing."""

    def __init__(self) -> None:
        self._is_kept = False
        self._passes = False
        self._is_installed = False
        self.has_come = False  # whether or not somebody caught it

    def __enter__(self) -> Self:
        is_default = signal.getsignal(signal.SIGINT) is signal.default_int_handler
        if is_default and threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, self._on_interrupt)
            self._is_installed = True
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._is_installed:
            signal.signal(signal.SIGINT, signal.default_int_handler)
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

    def _on_interrupt(self, _number: int, _frame: FrameType | None) -> None:
        self.has_come = True
        if self._passes or self._is_kept:
            raise KeyboardInterrupt
        self._is_kept = True
