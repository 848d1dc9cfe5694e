"""Tracks the followers of a log in the writer's process: retention keeps what they have not read.

They are referenced weakly: a follower that is closed or garbage-collected no longer counts.
"""

from __future__ import annotations

import weakref
from typing import Protocol

from lakebed.aof.record_id import RecordId
from lakebed.base.runner import Mutex


class PositionedReader(Protocol):
    @property
    def position(self) -> RecordId: ...

    @property
    def is_closed(self) -> bool: ...


class Holds:
    """The readers whose unread records retention must keep, for one log. Thread-safe."""

    def __init__(self, mutex: Mutex) -> None:
        self._mutex = mutex
        self._readers: dict[int, weakref.ref[PositionedReader]] = {}  # guarded by _mutex

    def add(self, reader: PositionedReader) -> None:
        with self._mutex:
            self._readers[id(reader)] = weakref.ref(reader)

    def remove(self, reader: PositionedReader) -> None:
        with self._mutex:
            self._readers.pop(id(reader), None)

    def lowest_segment(self) -> int | None:
        """Returns the number of the oldest segment that a reader needs; None without readers."""
        with self._mutex:
            readers = [reader for ref in self._readers.values() if (reader := ref())]
            alive = {id(reader): reader for reader in readers if not reader.is_closed}
            self._readers = {key: weakref.ref(reader) for key, reader in alive.items()}
        return min((reader.position.segment_index for reader in alive.values()), default=None)
