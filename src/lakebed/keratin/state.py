"""The current state of an open partition: its segments, its durable end and the waiting readers."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from lakebed.base.clock import NS_PER_S
from lakebed.base.errors import Closed
from lakebed.base.listeners import Listeners
from lakebed.base.runner import Event, Runner
from lakebed.keratin.paths import PartitionPaths, SegmentFile
from lakebed.keratin.segment import ActiveSegment
from lakebed.keratin.view import PartitionSegment


class PartitionState:
    """The segments, the start offset and the durable end of a partition.

    Only the writer changes them. The mutex guards changes, and reads of several fields together;
    any thread may read a single field without it.
    """

    def __init__(
        self,
        paths: PartitionPaths,
        runner: Runner,
        *,
        sealed: Sequence[PartitionSegment],
        active: ActiveSegment,
        next_offset: int,
        start_offset: int,
    ) -> None:
        self.name = paths.name
        self._paths = paths
        self._runner = runner
        self._mutex = runner.mutex()
        self._sealed = tuple(sealed)
        self._active = active
        self._durable_position = active.end
        self._durable_offset = next_offset
        self._start_offset = start_offset
        self._moved: Event | None = None  # set when the durable end moves; readers wait for it
        self._listeners = Listeners(paths.name, runner)
        self._is_closed = False

    @property
    def sealed(self) -> tuple[PartitionSegment, ...]:
        return self._sealed

    @property
    def durable_offset(self) -> int:
        return self._durable_offset

    def start_offset(self) -> int:
        return self._start_offset

    def segments(self) -> Sequence[PartitionSegment]:
        """Returns the segments, oldest first; the last one is active. See `PartitionView`."""
        with self._mutex:
            active = PartitionSegment(
                base_offset=self._active.base_offset,
                next_offset=self._durable_offset,
                path=self._paths.segment(self._active.base_offset, SegmentFile.LOG),
                end=self._durable_position,
                is_sealed=False,
            )
            return (*self._sealed, active)

    def move_durable(self, *, position: int, offset: int) -> None:
        """Moves the durable end and wakes the waiting readers."""
        with self._mutex:
            self._durable_position, self._durable_offset = position, offset
            moved, self._moved = self._moved, None
        self._notify(moved)

    def begin(self, active: ActiveSegment, sealed: PartitionSegment) -> None:
        """Adds `sealed` to the sealed segments, and makes `active` the active segment."""
        with self._mutex:
            self._sealed = (*self._sealed, sealed)
            self._active = active
            self._durable_position = active.end

    def replace_sealed(self, sealed: Sequence[PartitionSegment], *, start_offset: int) -> None:
        with self._mutex:
            self._sealed = tuple(sealed)
            self._start_offset = start_offset

    def wait_beyond(self, offset: int, timeout: float | None) -> bool:
        """Waits until the high watermark is greater than `offset`.

        Returns True then, or False after `timeout` seconds. Raises `Closed` if the partition is
        closed.
        """
        clock = self._runner.clock
        deadline_ns = None if timeout is None else clock.monotonic_ns() + round(timeout * NS_PER_S)
        while True:
            with self._mutex:
                if self._is_closed:
                    raise Closed(f"{self.name}: the partition is closed")
                if self._durable_offset > offset:
                    return True
                moved = self._moved = self._moved or self._runner.event()
            left = None
            if deadline_ns is not None:
                left = (deadline_ns - clock.monotonic_ns()) / NS_PER_S
                if left <= 0:
                    return False
            moved.wait(left)

    def on_durable(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Calls `callback` when the high watermark moves or the partition is closed.

        See `PartitionView`.
        """
        return self._listeners.add(callback)

    def close(self) -> None:
        """Wakes the waiting readers, which then raise `Closed`, and calls the subscribers.

        Idempotent.
        """
        with self._mutex:
            self._is_closed = True
            moved, self._moved = self._moved, None
        self._notify(moved)

    def _notify(self, moved: Event | None) -> None:
        if moved is not None:
            moved.set()
        self._listeners.call()
