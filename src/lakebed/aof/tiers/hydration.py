"""The queue of segments to restore to Tier 0, most urgent first."""

from __future__ import annotations

import heapq
from enum import IntEnum
from itertools import count
from typing import NamedTuple

from lakebed.base.runner import Mutex


class Priority(IntEnum):
    """Why a segment is to be restored; smaller numbers are more urgent."""

    READ_MISS = 0  # a reader has just read it
    FOLLOWER = 1  # a follower begins in it
    PREFETCH = 2  # a reader reads the segment before it
    RECOVERY = 3  # its warm file failed


class HydrationRequest(NamedTuple):
    """A request to restore a segment to Tier 0."""

    segment_id: int
    priority: Priority
    requested_ns: int  # when it was first requested


class HydrationQueue:
    """The queue of requests to restore segments to Tier 0. Thread-safe.

    A second request for a queued segment has an effect only if it is more urgent.
    """

    def __init__(self, mutex: Mutex) -> None:
        self._mutex = mutex
        self._heap: list[tuple[Priority, int, int]] = []  # guarded by _mutex, like the fields below
        self._requested: dict[int, tuple[Priority, int]] = {}  # priority, and time of request
        self._order = count()

    def __len__(self) -> int:
        return len(self._requested)

    def __contains__(self, segment_id: int) -> bool:
        return segment_id in self._requested

    def add(self, segment_id: int, priority: Priority, *, now_ns: int) -> None:
        with self._mutex:
            earlier = self._requested.get(segment_id)
            if earlier is None or priority < earlier[0]:
                requested_ns = now_ns if earlier is None else earlier[1]
                self._requested[segment_id] = (priority, requested_ns)
                heapq.heappush(self._heap, (priority, next(self._order), segment_id))

    def take(self) -> HydrationRequest | None:
        """Removes and returns the most urgent request; None if the queue is empty."""
        with self._mutex:
            while self._heap:
                priority, _, segment_id = heapq.heappop(self._heap)
                requested = self._requested.get(segment_id)
                if requested is not None and requested[0] == priority:
                    del self._requested[segment_id]
                    return HydrationRequest(segment_id, *requested)
            return None
