"""Memory of the size of a chunk that is used again: new memory costs a fault for each page."""

from __future__ import annotations

from collections import deque

KEPT_MAX = 8


class ChunkBuffers:
    """Thread-safe: the methods of a deque are atomic."""

    def __init__(self) -> None:
        self._free: deque[bytearray] = deque(maxlen=KEPT_MAX)

    def take(self, size: int) -> bytearray:
        """With whatever stood in it before. `size` is always the same."""
        try:
            return self._free.pop()
        except IndexError:
            return bytearray(size)

    def give_back(self, buffer: bytearray) -> None:
        """Nothing may look into it any more."""
        self._free.append(buffer)
