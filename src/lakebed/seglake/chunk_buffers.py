"""A pool of chunk-sized buffers, reused because new memory costs a page fault per page."""

from __future__ import annotations

from collections import deque

KEPT_MAX = 8


class ChunkBuffers:
    """A bounded pool of chunk-sized buffers. Thread-safe."""

    def __init__(self) -> None:
        self._free: deque[bytearray] = deque(maxlen=KEPT_MAX)

    def take(self, size: int) -> bytearray:
        """Returns a buffer with arbitrary contents. Every call must pass the same `size`."""
        try:
            return self._free.pop()
        except IndexError:
            return bytearray(size)

    def give_back(self, buffer: bytearray) -> None:
        """Puts a buffer back into the pool, which keeps at most `KEPT_MAX` buffers.

        The caller must not use the buffer any more.
        """
        self._free.append(buffer)
