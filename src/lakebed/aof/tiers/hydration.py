"""Which segments are to come back into Tier 0, the most urgent first."""

from __future__ import annotations

import heapq
from enum import IntEnum
from itertools import count
from typing import NamedTuple

from lakebed.base.runner import Mutex


class Priority(IntEnum):
    """Why a segment is wanted; a smaller number comes first."""

    READ_MISS = 0  # somebody reads it now
    FOLLOWER = 1  # a follower comes to it
    PREFETCH = 2  # somebody reads the one before it
    RECOVERY = 3  # its warm file failed


class HydrationRequest(NamedTuple):
    """A segment that is to come back."""

    segment_id: int
    priority: Priority
    asked_ns: int  # when it was first asked for


class HydrationQueue:
    """Thread-safe. A segment that is asked for again only becomes more urgent."""

    def __init__(self, mutex: Mutex) -> None:
        self._mutex = mutex
        self._heap: list[tuple[Priority, int, int]] = []  # guarded by _mutex, as are the next
        self._wanted: dict[int, tuple[Priority, int]] = {}  # priority, and when it was asked for
        self._order = count()

    def __len__(self) -> int:
        return len(self._wanted)

    def __contains__(self, segment_id: int) -> bool:
        return segment_id in self._wanted

    def add(self, segment_id: int, priority: Priority, *, now_ns: int) -> None:
        with self._mutex:
            earlier = self._wanted.get(segment_id)
            if earlier is None or priority < earlier[0]:
                asked_ns = now_ns if earlier is None else earlier[1]
                self._wanted[segment_id] = (priority, asked_ns)
                heapq.heappush(self._heap, (priority, next(self._order), segment_id))

    def take(self) -> HydrationRequest | None:
        """The most urgent one."""
        with self._mutex:
            while self._heap:
                priority, _, segment_id = heapq.heappop(self._heap)
                wanted = self._wanted.get(segment_id)
                if wanted is not None and wanted[0] == priority:
                    del self._wanted[segment_id]
                    return HydrationRequest(segment_id, *wanted)
            return None
