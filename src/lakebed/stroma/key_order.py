"""Keeps messages of a key in order: no message is leased before the earlier messages of its key.

Messages are scanned in ascending order, up to `end`. Each key has a queue of its unsettled
messages. One lease may take several messages from the front of a queue; while one of them is
leased, no other lease gets a message of that key. Messages without a key are not tracked here.

If a queue has `queue_max` messages, further messages of its key are *parked*: they are skipped, and
scanned again once no earlier message is in the queue. So one key with very many messages does not
use up the memory limit of all keys. A message that was leased, delayed or scheduled before is never
parked, even if the queue is full. A leased message may be added before earlier messages are
scanned.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Sequence

QUEUE_MAX = 1000


class KeyOrder:
    """The queues of unsettled messages, one queue per key. Not thread-safe."""

    def __init__(self, *, queue_max: int = QUEUE_MAX) -> None:
        self.end = 0  # every unsettled message before this offset was scanned
        self._queue_max = queue_max
        self._queues: dict[int, list[int]] = {}
        self._keys: dict[int, int] = {}  # the key of each offset in the queues
        self._leased: dict[int, set[int]] = {}  # the leased offsets by key; never empty sets
        self._parked: dict[int, int] = {}  # by key, the lowest offset that may be parked

    def __len__(self) -> int:
        """Returns the number of messages in all queues."""
        return len(self._keys)

    def take_parked(self, start: int, end: int) -> list[int]:
        """Starts a scan of `[start, end)`; returns the keys whose first parked message is there.

        The caller must then call `add` for each message of the range that has a key, and pass the
        returned keys to `finish_scan`.
        """
        keys = [key for key, offset in self._parked.items() if start <= offset < end]
        for key in keys:
            del self._parked[key]
        return keys

    def add(
        self, offset: int, key: int, *, must_queue: bool = False, is_leased: bool = False
    ) -> bool:
        """Adds a message to the queue of its key; returns False if it is parked instead.

        With `must_queue`, the message is never parked. Adding a message twice has no effect.
        """
        if offset in self._keys:
            return True
        queue = self._queues.get(key, [])
        if not must_queue:
            if key in self._parked:
                return False
            if len(queue) >= self._queue_max and queue[0] < offset:
                self._parked[key] = offset
                return False
        insort(queue, offset)
        self._queues[key] = queue
        self._keys[offset] = key
        if is_leased:
            self._leased.setdefault(key, set()).add(offset)
        return True

    def finish_scan(self, end: int, keys: list[int]) -> None:
        """Ends a scan up to `end`.

        `keys` is the list that `take_parked` returned.
        """
        self.end = max(self.end, end)
        if end < self.end:
            for key in keys:
                self._parked.setdefault(key, end)

    def parked_start(self, base: int) -> int | None:
        """Returns where to scan again because the first message of a key may be parked there.

        The result is `base` or later. Returns None if no scan is needed.
        """
        self._parked = {
            key: max(offset, base)
            for key, offset in self._parked.items()
            if max(offset, base) < self.end
        }
        starts = (
            offset
            for key, offset in self._parked.items()
            if key not in self._queues or self._queues[key][0] >= offset
        )
        return min(starts, default=None)

    def is_free(self, offset: int) -> bool:
        """Returns whether the message at `offset` need not wait for other messages of its key.

        That is the case if it is the first unsettled message of its key, and no message of that
        key is leased, or if it is not in a queue, because it has no key.
        """
        key = self._keys.get(offset)
        if key is None:
            return True
        if key in self._leased or self._queues[key][0] != offset:
            return False
        return offset < self._parked.get(key, offset + 1)

    def following(self, offset: int, count: int) -> Sequence[int]:
        """Returns up to `count` messages that are queued after the message at `offset`.

        That message must be the first one in the queue of its key. Stops before an offset at which
        a message of the key may be parked, and before messages that were not scanned yet.
        """
        key = self._keys.get(offset)
        if key is None:
            return ()
        queue = self._queues[key]
        end = min(self._parked.get(key, self.end), self.end)
        return queue[1 : min(1 + count, bisect_left(queue, end))]

    def hold(self, start: int, end: int) -> None:
        """Marks the messages `[start, end)` as leased."""
        for offset in self._queued(start, end):
            self._leased.setdefault(self._keys[offset], set()).add(offset)

    def release(self, start: int, end: int) -> list[int]:
        """Marks the messages `[start, end)` as not leased.

        Returns the messages that have become the next ones of their keys to be leased.
        """
        freed = []
        for offset in self._queued(start, end):
            key = self._keys[offset]
            if self._release(offset, key) and key not in self._leased:
                freed.append(self._queues[key][0])
        return freed

    def settle(self, start: int, end: int) -> list[int]:
        """Removes the messages `[start, end)` from the queues.

        Returns the messages that have become the next ones of their keys to be leased.
        """
        freed = []
        for offset in self._queued(start, end):
            key = self._keys.pop(offset)
            queue = self._queues[key]
            index = bisect_left(queue, offset)
            del queue[index]
            was_blocking = self._release(offset, key) or index == 0
            if not queue:
                del self._queues[key]
            elif was_blocking and key not in self._leased:
                freed.append(queue[0])
        return [offset for offset in freed if offset in self._keys]

    def cut(self, end: int) -> None:
        """Forgets all messages from `end` on."""
        for offset in [offset for offset in self._keys if offset >= end]:
            self.settle(offset, offset + 1)
        self.end = min(self.end, end)
        self._parked = {key: offset for key, offset in self._parked.items() if offset < end}

    def clear(self) -> None:
        self.end = 0
        self._queues.clear()
        self._keys.clear()
        self._leased.clear()
        self._parked.clear()

    def _release(self, offset: int, key: int) -> bool:
        """Marks a message as not leased; returns whether it was leased."""
        leased = self._leased.get(key)
        if leased is None or offset not in leased:
            return False
        leased.remove(offset)
        if not leased:
            del self._leased[key]
        return True

    def _queued(self, start: int, end: int) -> Iterable[int]:
        """Returns the offsets of `[start, end)` that are in a queue."""
        if end - start <= len(self._keys):
            return [offset for offset in range(start, end) if offset in self._keys]
        return sorted(offset for offset in self._keys if start <= offset < end)
