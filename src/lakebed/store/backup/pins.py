"""Pins for as long as a backup needs them, renewed while it works.

What is pinned stays where it is: no retention, eviction or compaction touches it. A root that
cannot be written to at all has nobody else who removes anything, and needs none.
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
_RENEWED_PART = 3  # of its time, after which a pin is renewed
OWNER = "backup"


class BackupPins:
    """For one thread at a time; in a `with`, at whose end everything is let go of."""

    def __init__(self, pins: Pins, *, clock: Clock) -> None:
        self._pins = pins
        self._clock = clock
        self._held: dict[str, int] = {}  # when each was made or renewed, by the monotonic clock

    def log(self, name: str) -> str | None:
        """All segments of a log; what `release` takes."""
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
        """All messages of a partition; what `release` takes."""
        return self._hold(
            lambda: self._pins.pin_offsets(
                topic, number, start=0, end=OFFSET_MAX, duration_ms=DURATION_MS, owner=OWNER
            )
        )

    def renew(self) -> None:
        """To be called often; does something when it is time to. `Busy` if it was not called."""
        now_ns = self._clock.monotonic_ns()
        for pin_id, held_ns in list(self._held.items()):
            if now_ns - held_ns >= DURATION_MS * NS_PER_MS // _RENEWED_PART:
                try:
                    self._pins.renew(pin_id, duration_ms=DURATION_MS)
                except NotFound as error:  # what it held may be gone: that is no damage
                    raise Busy(
                        f"the backup was held up for too long; try again ({error})"
                    ) from None
                self._held[pin_id] = now_ns

    def release(self, pin_id: str | None) -> None:
        if pin_id is not None:
            self._held.pop(pin_id, None)
            with contextlib.suppress(LakebedError):  # it expires
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
