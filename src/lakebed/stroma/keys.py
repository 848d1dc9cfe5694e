"""The order of messages that have the same key: each waits until the one before it is settled.

Messages are looked at in ascending order, up to `end`; nothing is known of those from there on.
Each key has a queue of its unsettled messages. Messages without a key are not known here: they
wait for no other.

A key has at most `queue_max` messages in its queue, so that one with very many does not use up what
may be known of all keys. Its other messages are *parked*: passed over, and looked at again when its
queue is empty. A message that was leased before is never parked.
"""

from __future__ import annotations

from bisect import insort

QUEUE_MAX = 1000


class KeyOrder:
    """Not thread-safe."""

    def __init__(self, *, queue_max: int = QUEUE_MAX) -> None:
        self.end = 0  # every unsettled message before it was looked at
        self._queue_max = queue_max
        self._queues: dict[int, list[int]] = {}
        self._keys: dict[int, int] = {}  # of the offsets in the queues
        self._parked: dict[int, int] = {}  # by key: where its first parked message may be

    def __len__(self) -> int:
        """How many messages."""
        return len(self._keys)

    def look(self, start: int, end: int) -> list[int]:
        """Messages are about to be looked at, which may be those parked there: their keys.

        Then `add` each message of `[start, end)` that has a key, and call `looked`.
        """
        keys = [key for key, offset in self._parked.items() if start <= offset < end]
        for key in keys:
            del self._parked[key]
        return keys

    def add(self, offset: int, key: int, *, must_queue: bool = False) -> bool:
        """After the others of its key; False if it is parked. Fine if it is known."""
        if offset in self._keys:
            return True
        queue = self._queues.get(key, [])
        if not must_queue:
            if key in self._parked:
                return False
            if len(queue) >= self._queue_max:
                self._parked[key] = offset
                return False
        insort(queue, offset)
        self._queues[key] = queue
        self._keys[offset] = key
        return True

    def looked(self, end: int, keys: list[int]) -> None:
        """All messages before `end` were added that `look` asked for."""
        self.end = max(self.end, end)
        if end < self.end:
            for key in keys:
                self._parked.setdefault(key, end)

    def parked_start(self, base: int) -> int | None:
        """Where to look again, because the queue of a key is empty; nothing is before `base`."""
        self._parked = {
            key: max(offset, base)
            for key, offset in self._parked.items()
            if max(offset, base) < self.end
        }
        starts = (offset for key, offset in self._parked.items() if key not in self._queues)
        return min(starts, default=None)

    def is_first(self, offset: int) -> bool:
        """Whether no earlier message of its key is unsettled."""
        key = self._keys.get(offset)
        if key is None:
            return True
        return self._queues[key][0] == offset and offset < self._parked.get(key, offset + 1)

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

    def cut(self, end: int) -> None:
        """Forget everything from `end` on."""
        for offset in [offset for offset in self._keys if offset >= end]:
            self.settle(offset, offset + 1)
        self.end = min(self.end, end)
        self._parked = {key: offset for key, offset in self._parked.items() if offset < end}

    def clear(self) -> None:
        self.end = 0
        self._queues.clear()
        self._keys.clear()
        self._parked.clear()

    def _within(self, start: int, end: int) -> list[int]:
        return sorted(offset for offset in self._keys if start <= offset < end)
