"""A cache of verified chunks, bounded in bytes, that makes small reads within a chunk cheap.

A new chunk is on probation, in a quarter of the cache. Its second read moves it to the main part,
where it can evict other chunks that were read repeatedly. So reading a large object once does not
evict the chunks that are read repeatedly. A chunk that is evicted from the main part goes back on
probation.
"""

from __future__ import annotations

from collections import OrderedDict

from lakebed.base.runner import Mutex

_PROBATION_PART = 4  # a quarter of the cache is for chunks that were read once
_OVERHEAD_BYTES = 256  # memory of an entry in addition to its data: key, view and table slots


class ChunkCache:
    """A cache of verified chunks by their hash. Thread-safe."""

    def __init__(self, *, bytes_max: int, mutex: Mutex) -> None:
        self._mutex = mutex
        self._probation = _Queue(bytes_max // _PROBATION_PART)  # guarded by _mutex
        self._proven = _Queue(bytes_max - bytes_max // _PROBATION_PART)  # guarded by _mutex

    @property
    def used_bytes(self) -> int:
        return self._probation.used_bytes + self._proven.used_bytes

    def get(self, chunk_hash: bytes) -> memoryview | None:
        with self._mutex:
            data = self._proven.get(chunk_hash)
            if data is None:
                data = self._probation.pop(chunk_hash)
                if data is not None:
                    # An evicted chunk goes back on probation.
                    for old_hash, old in self._proven.add(chunk_hash, data):
                        self._probation.add(old_hash, old)
            return data

    def add(self, chunk_hash: bytes, data: memoryview) -> None:
        """Adds a chunk on probation.

        Does nothing if the chunk is already cached or larger than the probation part of the cache.
        """
        with self._mutex:
            if self._proven.get(chunk_hash) is None:
                self._probation.add(chunk_hash, data)


class _Queue:
    """A part of the cache, which evicts the least recently used chunk first."""

    def __init__(self, bytes_max: int) -> None:
        self.used_bytes = 0
        self._bytes_max = bytes_max
        self._entries: OrderedDict[bytes, memoryview] = OrderedDict()

    def get(self, chunk_hash: bytes) -> memoryview | None:
        data = self._entries.get(chunk_hash)
        if data is not None:
            self._entries.move_to_end(chunk_hash)
        return data

    def pop(self, chunk_hash: bytes) -> memoryview | None:
        data = self._entries.pop(chunk_hash, None)
        if data is not None:
            self.used_bytes -= _cost(data)
        return data

    def add(self, chunk_hash: bytes, data: memoryview) -> list[tuple[bytes, memoryview]]:
        """Adds a chunk and returns the chunks that were evicted for it.

        Does nothing if the chunk is already in the queue or larger than the whole queue.
        """
        if chunk_hash in self._entries or _cost(data) > self._bytes_max:
            return []
        self._entries[chunk_hash] = data
        self.used_bytes += _cost(data)
        evicted = []
        while self.used_bytes > self._bytes_max:
            old = self._entries.popitem(last=False)
            self.used_bytes -= _cost(old[1])
            evicted.append(old)
        return evicted


def _cost(data: memoryview) -> int:
    return len(data) + _OVERHEAD_BYTES
