"""Follows several partitions of a topic, which this process or another one writes.

The thread that calls `next_batch` polls the durable end of each partition; there is no thread per
partition. The messages of one partition are in order. The order among partitions is not defined,
but they take turns, so no partition is starved by others.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from lakebed.base.clock import NS_PER_S
from lakebed.base.errors import InputError
from lakebed.base.poll import poll_until
from lakebed.base.runner import Runner
from lakebed.base.units import MIB
from lakebed.keratin.follower import PartitionCursor
from lakebed.keratin.message_batch import MessageBatch
from lakebed.keratin.view import PartitionView

BATCH_BYTES = 1 * MIB


class FollowedPartition(NamedTuple):
    """A batch of messages and the number of their partition."""

    partition: int
    batch: MessageBatch


class TopicFollower:
    """Returns the messages of several partitions as they arrive. Not thread-safe."""

    def __init__(
        self,
        views: Mapping[int, PartitionView],
        starts: Mapping[int, int],
        *,
        runner: Runner,
        batch_bytes_max: int = BATCH_BYTES,
    ) -> None:
        """`starts` maps partitions to the offsets at which to begin.

        A partition that is not in `starts` begins at its oldest message. Raises `InputError` if
        there are no `views`, because the follower would wait for ever.
        """
        if not views:
            raise InputError(
                "no partition to follow: name at least one, or leave out `starts` to follow all"
            )
        self._runner = runner
        self._views = dict(views)
        self._cursors = {
            number: PartitionCursor(
                view, starts.get(number), batch_bytes_max=batch_bytes_max, handles_max=1
            )
            for number, view in views.items()
        }
        self._turn = list(self._cursors)  # the first partition is read next

    @property
    def positions(self) -> dict[int, int]:
        """The offset from which each partition is read next, by partition number."""
        return {number: cursor.position for number, cursor in self._cursors.items()}

    def next_batch(self, timeout: float | None = None) -> FollowedPartition | None:
        """Wait for the next messages and return them; None after `timeout` seconds without any.

        By default there is no time limit. Raises `OffsetOutOfRange` if retention removed messages
        that were not read yet, or if an offset in `starts` is after the end of its partition,
        `Corrupt` if the next messages are damaged, and `Closed` if a partition was closed.
        """
        clock = self._runner.clock
        deadline = None if timeout is None else clock.monotonic_ns() + round(timeout * NS_PER_S)
        while True:
            followed = self._take()
            if followed is not None:
                return followed
            left = None if deadline is None else (deadline - clock.monotonic_ns()) / NS_PER_S
            if left is not None and left <= 0:
                return None
            if not poll_until(self._runner, self._has_more, left):
                return None

    def close(self) -> None:
        """Close the cursors. Idempotent."""
        for cursor in self._cursors.values():
            cursor.close()

    def __enter__(self) -> TopicFollower:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _take(self) -> FollowedPartition | None:
        for index, number in enumerate(self._turn):
            batch = self._cursors[number].take()
            if batch is not None:
                self._turn = [*self._turn[index + 1 :], *self._turn[: index + 1]]
                return FollowedPartition(number, batch)
        return None

    def _has_more(self) -> bool:
        # Also true if the end is before the cursor: reading then raises the reason.
        return any(
            self._views[number].high_watermark() != cursor.position
            for number, cursor in self._cursors.items()
        )
