"""Follows several partitions of a topic at once, in this process or while another one writes.

It looks at the durable end of each partition again and again, in the thread that waits: no thread
for each of them. Messages of one partition come in order; which
partition is next is nobody's promise, but none waits while it has messages and others are read.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from lakebed.base.poll import poll_until
from lakebed.base.runner import Runner
from lakebed.base.units import MIB
from lakebed.keratin.follower import PartitionCursor
from lakebed.keratin.message_batch import MessageBatch
from lakebed.keratin.view import PartitionView

BATCH_BYTES = 1 * MIB


class FollowedPartition(NamedTuple):
    """Messages, and the number of their partition."""

    partition: int
    batch: MessageBatch


class TopicFollower:
    """For one thread."""

    def __init__(
        self,
        views: Mapping[int, PartitionView],
        starts: Mapping[int, int],
        *,
        runner: Runner,
        batch_bytes_max: int = BATCH_BYTES,
    ) -> None:
        """Of each of the partitions the messages from its start on; the oldest by default."""
        assert views, "a follower of nothing would wait for ever"
        self._runner = runner
        self._views = dict(views)
        self._cursors = {
            number: PartitionCursor(
                view, starts.get(number), batch_bytes_max=batch_bytes_max, handles_max=1
            )
            for number, view in views.items()
        }
        self._turn = list(self._cursors)  # who is asked first is the first of it

    @property
    def positions(self) -> dict[int, int]:
        """Behind the last messages given out, by partition."""
        return {number: cursor.position for number, cursor in self._cursors.items()}

    def next_batch(self, timeout: float | None = None) -> FollowedPartition | None:
        """The next messages; waits for one. None if the seconds passed first.

        `OffsetOutOfRange` if retention removed messages that were not taken. `Closed` if a
        partition was.
        """
        while True:
            found = self._take()
            if found is not None:
                return found
            if not poll_until(self._runner, self._has_more, timeout):
                return None

    def close(self) -> None:
        """Idempotent."""
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
        # Another number, not only a larger one: a cursor that is behind the end says why.
        return any(
            self._views[number].high_watermark() != cursor.position
            for number, cursor in self._cursors.items()
        )
