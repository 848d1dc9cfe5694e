"""The order of messages that have the same key: none is leased before those that precede it.

Messages are looked at in ascending order, up to `end`; nothing is known of those from there on.
Each key has a queue of its unsettled messages. One lease may have several from its front; while one
of them is leased, nobody else is given a message of that key. Messages without a key are not known
here: they wait for no other.

A key has at most `queue_max` messages in its queue, so that one with very many does not use up what
may be known of all keys. Its other messages are *parked*: passed over, and looked at again when no
message before them is in its queue. A message that was leased before is never parked; one that is
leased may be added before others are looked at.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Sequence

QUEUE_MAX = 1000


class KeyOrder:
    """Not thread-safe."""

    def __init__(self, *, queue_max: int = QUEUE_MAX) -> None:
        self.end = 0  # every unsettled message before it was looked at
        self._queue_max = queue_max
        self._queues: dict[int, list[int]] = {}
        self._keys: dict[int, int] = {}  # of the offsets in the queues
        self._leased: dict[int, set[int]] = {}  # by key, if there are any
        self._parked: dict[int, int] = {}  # by key: where its first parked message may be

    def __len__(self) -> int:
        """How many messages."""
        return len(self._keys)

    def take_parked(self, start: int, end: int) -> list[int]:
        """Messages are about to be looked at, which may be those parked there: their keys.

        Then `add` each message of `[start, end)` that has a key, and call `looked`.
        """
        keys = [key for key, offset in self._parked.items() if start <= offset < end]
        for key in keys:
            del self._parked[key]
        return keys

    def add(
        self, offset: int, key: int, *, must_queue: bool = False, is_leased: bool = False
    ) -> bool:
        """After the others of its key; False if it is parked. Fine if it is known."""
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
        """All messages before `end` were added that `look` asked for."""
        self.end = max(self.end, end)
        if end < self.end:
            for key in keys:
                self._parked.setdefault(key, end)

    def parked_start(self, base: int) -> int | None:
        """Where to look again, because what is first of a key may be there; not before `base`."""
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
        """Whether no earlier message of its key is unsettled, and none of it is leased."""
        key = self._keys.get(offset)
        if key is None:
            return True
        if key in self._leased or self._queues[key][0] != offset:
            return False
        return offset < self._parked.get(key, offset + 1)

    def following(self, offset: int, count: int) -> Sequence[int]:
        """Up to so many messages that come next in its key, of which it is the first."""
        key = self._keys.get(offset)
        if key is None:
            return ()
        queue = self._queues[key]
        end = min(self._parked.get(key, self.end), self.end)
        return queue[1 : min(1 + count, bisect_left(queue, end))]

    def hold(self, start: int, end: int) -> None:
        """The messages are leased now."""
        for offset in self._known(start, end):
            self._leased.setdefault(self._keys[offset], set()).add(offset)

    def release(self, start: int, end: int) -> list[int]:
        """The messages are not leased any more; those whose turn it is now, because of that."""
        freed = []
        for offset in self._known(start, end):
            key = self._keys[offset]
            if self._release(offset, key) and key not in self._leased:
                freed.append(self._queues[key][0])
        return freed

    def settle(self, start: int, end: int) -> list[int]:
        """Forget the messages; those whose turn it is now, because of that."""
        freed = []
        for offset in self._known(start, end):
            key = self._keys.pop(offset)
            queue = self._queues[key]
            index = bisect_left(queue, offset)
            del queue[index]
            was_in_the_way = self._release(offset, key) or index == 0
            if not queue:
                del self._queues[key]
            elif was_in_the_way and key not in self._leased:
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
        self._leased.clear()
        self._parked.clear()

    def _release(self, offset: int, key: int) -> bool:
        """Whether it was leased."""
        leased = self._leased.get(key)
        if leased is None or offset not in leased:
            return False
        leased.remove(offset)
        if not leased:
            del self._leased[key]
        return True

    def _known(self, start: int, end: int) -> Iterable[int]:
        """Those of the messages that are in a queue."""
        if end - start <= len(self._keys):
            return [offset for offset in range(start, end) if offset in self._keys]
        return sorted(offset for offset in self._keys if start <= offset < end)
