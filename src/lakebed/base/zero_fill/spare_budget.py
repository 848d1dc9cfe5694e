"""Limits the bytes that the spare segments of several logs use together.

A spare counts with its full length from its creation until it is used as a segment or removed. Busy
logs have priority: after a busy log was refused a spare, logs that are not busy create no spares
and give up those they have, until a request of a busy log succeeds.
"""

from __future__ import annotations

from collections.abc import Callable

from lakebed.base.runner import Mutex


class SpareBudget:
    def __init__(
        self, *, bytes_max: int, mutex: Mutex, on_short: Callable[[], None] = lambda: None
    ) -> None:
        """Creates a budget of `bytes_max`. `on_short` is called when `is_short` becomes true, so
        that other logs can give up spares.
        """
        self._bytes_max = bytes_max
        self._on_short = on_short
        self._mutex = mutex
        self._used_bytes = 0  # guarded by _mutex, like the next field
        self._is_short = False

    @property
    def used_bytes(self) -> int:
        return self._used_bytes

    @property
    def is_short(self) -> bool:
        """Whether the last request of a busy log was refused because other spares use the bytes."""
        return self._is_short

    def take(self, size: int, *, is_busy: bool) -> bool:
        """Reserves `size` bytes for a spare if they are free, and returns whether it succeeded.

        A log that is not busy is also refused while `is_short`.
        """
        with self._mutex:
            has_room = self._used_bytes + size <= self._bytes_max
            was_short = self._is_short
            if is_busy:
                self._is_short = not has_room and size <= self._bytes_max
            is_granted = has_room and not self._is_short
            if is_granted:
                self._used_bytes += size
            is_newly_short = self._is_short and not was_short
        if is_newly_short:
            self._on_short()
        return is_granted

    def give_back(self, size: int) -> None:
        with self._mutex:
            self._used_bytes -= size
            assert self._used_bytes >= 0, "more bytes were given back than taken"
