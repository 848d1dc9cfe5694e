"""The order of messages that have the same key: each waits until the one before it is settled.

Knows the unsettled messages that were looked at, and of each key their order. Messages without a
key are not known here: they wait for nobody.
"""

from __future__ import annotations

from collections import deque


class KeyOrder:
    """Offsets of one key are added in ascending order."""

    def __init__(self) -> None:
        self._queues: dict[int, deque[int]] = {}
        self._keys: dict[int, int] = {}  # of the offsets in the queues

    def __len__(self) -> int:
        """How many messages."""
        return len(self._keys)

    def add(self, offset: int, key: int) -> None:
        """Behind the others of its key. Fine if it is known."""
        if offset in self._keys:
            return
        self._keys[offset] = key
        queue = self._queues.setdefault(key, deque())
        assert not queue or queue[-1] < offset, "looked at out of order"
        queue.append(offset)

    def is_first(self, offset: int) -> bool:
        """Whether no earlier message of its key is unsettled."""
        key = self._keys.get(offset)
        return key is None or self._queues[key][0] == offset

    def settle(self, start: int, end: int) -> list[int]:
        """Forget the messages; those whose turn it is now, because of that."""
        freed = []
        for offset in (
            range(start, end) if end - start <= len(self._keys) else self._within(start, end)
        ):
            key = self._keys.pop(offset, None)
            if key is None:
                continue
            queue = self._queues[key]
            was_first = queue[0] == offset
            queue.remove(offset)  # nearly always the first
            if not queue:
                del self._queues[key]
            elif was_first:
                freed.append(queue[0])
        return [offset for offset in freed if offset in self._keys]

    def clear(self) -> None:
        self._queues.clear()
        self._keys.clear()

    def _within(self, start: int, end: int) -> list[int]:
        return sorted(offset for offset in self._keys if start <= offset < end)
