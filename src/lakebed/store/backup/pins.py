"""Pins the data that a backup is reading, and renews the pins while the backup runs.

Retention, eviction and compaction do not touch pinned data. A root on a read-only file system needs
no pins, because nothing in it can be removed.
"""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Callable

from lakebed.aof.record_id import SEGMENT_INDEX_MAX
from lakebed.base.clock import NS_PER_MS, Clock
from lakebed.base.errors import Busy, DiskError, LakebedError, NotFound
from lakebed.keratin.format import OFFSET_MAX
from lakebed.store.pin_file import Pin
from lakebed.store.pins import Pins

DURATION_MS = 15 * 60 * 1000
_RENEWED_PART = 3  # a pin is renewed after a third of its duration
OWNER = "backup"


class BackupPins:
    """The pins of one backup. A context manager, which releases all pins at its end.

    Not thread-safe.
    """

    def __init__(self, pins: Pins, *, clock: Clock) -> None:
        self._pins = pins
        self._clock = clock
        self._held: dict[str, int] = {}  # the monotonic time of each pin's creation or renewal

    def log(self, name: str) -> str | None:
        """Pins all segments of a log; returns the pin's id, to pass to `release`.

        Returns None if the file system is read-only.
        """
        return self._hold(
            lambda: self._pins.pin(
                name,
                segment_start=0,
                segment_end=SEGMENT_INDEX_MAX + 1,
                duration_ms=DURATION_MS,
                owner=OWNER,
            )
        )

    def partition(self, topic: str, number: int) -> str | None:
        """Pins all messages of a partition; returns the pin's id, to pass to `release`.

        Returns None if the file system is read-only.
        """
        return self._hold(
            lambda: self._pins.pin_offsets(
                topic, number, start=0, end=OFFSET_MAX, duration_ms=DURATION_MS, owner=OWNER
            )
        )

    def renew(self) -> None:
        """Renews the pins that are due. The backup must call this often.

        Raises `Busy` if a pin has expired or no longer exists.
        """
        now_ns = self._clock.monotonic_ns()
        for pin_id, held_ns in list(self._held.items()):
            if now_ns - held_ns >= DURATION_MS * NS_PER_MS // _RENEWED_PART:
                try:
                    self._pins.renew(pin_id, duration_ms=DURATION_MS)
                except NotFound as error:  # what it protected may be gone, which is not damage
                    raise Busy(
                        f"the backup stalled for so long that a pin expired ({error}); "
                        "take the backup again"
                    ) from None
                self._held[pin_id] = now_ns

    def release(self, pin_id: str | None) -> None:
        if pin_id is not None:
            self._held.pop(pin_id, None)
            with contextlib.suppress(LakebedError):  # a pin that stays expires
                self._pins.release(pin_id)

    def __enter__(self) -> BackupPins:
        return self

    def __exit__(self, *_: object) -> None:
        for pin_id in list(self._held):
            self.release(pin_id)

    def _hold(self, pin: Callable[[], Pin]) -> str | None:
        try:
            pin_id = pin().pin_id
        except DiskError as error:
            if error.code != errno.EROFS:
                raise
            return None
        self._held[pin_id] = self._clock.monotonic_ns()
        return pin_id
