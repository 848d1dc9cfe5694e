"""Reads any part of a warm file's segment, decompressing only the frames that contain it.

Decompressed frames are cached, up to `cache_bytes_max` bytes but at least one frame; the least
recently used frames are dropped first. Checksums are verified when a frame is decompressed, and not
again when it is read from the cache.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator

from lakebed.aof.tiers.dictionary import Dictionary
from lakebed.aof.tiers.frames import Frames, ReadCounters
from lakebed.aof.tiers.ranges import RangeSource
from lakebed.base.runner import Mutex
from lakebed.base.units import MIB

CACHE_BYTES_MAX = MIB


class SeekableReader:
    """Reads the decompressed bytes of one warm file. Thread-safe.

    Frames are fetched and decompressed outside the lock: two threads that need the same frame at
    the same moment both fetch it.
    """

    def __init__(
        self,
        source: RangeSource,
        *,
        mutex: Mutex,
        dictionary: Dictionary | None = None,
        cache_bytes_max: int = CACHE_BYTES_MAX,
        counters: ReadCounters | None = None,
    ) -> None:
        """Fetches the seek table; raises a `DataError` if the source is not a warm file."""
        self._frames = Frames(source, dictionary=dictionary, counters=counters)
        self._cache_bytes_max = cache_bytes_max
        self._mutex = mutex
        self._cached: OrderedDict[int, bytes] = OrderedDict()  # guarded by _mutex
        self._cached_bytes = 0  # guarded by _mutex

    @property
    def name(self) -> str:
        return self._frames.name

    @property
    def size(self) -> int:
        """The size in bytes of the segment file when it is decompressed."""
        return self._frames.size

    def read(self, offset: int, length: int) -> bytes:
        """Returns `length` bytes of the segment from `offset` on, or fewer at the segment's end."""
        start, end = max(offset, 0), min(offset + length, self.size)
        if start >= end:
            return b""
        frames = self._frames.table.covering(start, end)
        parts = []
        for frame, content in zip(frames, self._contents(frames), strict=True):
            place = self._frames.table.inflated(frame)
            first, last = max(start - place.start, 0), min(end - place.start, len(content))
            parts.append(content if last - first == len(content) else content[first:last])
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def close(self) -> None:
        """Closes the source and clears the cache. Idempotent."""
        self._frames.close()
        with self._mutex:
            self._cached.clear()
            self._cached_bytes = 0

    def _contents(self, frames: range) -> list[bytes]:
        contents_by_frame = self._take(frames)
        for run in _runs(frame for frame in frames if frame not in contents_by_frame):
            contents_by_frame.update(zip(run, self._frames.inflate(run), strict=True))
        contents = [contents_by_frame[frame] for frame in frames]
        self._keep(frames, contents)
        return contents

    def _take(self, frames: range) -> dict[int, bytes]:
        with self._mutex:
            return {frame: self._cached[frame] for frame in frames if frame in self._cached}

    def _keep(self, frames: range, contents: list[bytes]) -> None:
        with self._mutex:
            for frame, content in zip(frames, contents, strict=True):
                self._cached_bytes += len(content) - len(self._cached.pop(frame, b""))
                self._cached[frame] = content
            while self._cached_bytes > self._cache_bytes_max and len(self._cached) > 1:
                _, content = self._cached.popitem(last=False)
                self._cached_bytes -= len(content)


def _runs(frames: Iterator[int]) -> Iterator[range]:
    """Groups consecutive numbers into ranges."""
    run = range(0)
    for frame in frames:
        if run and frame == run.stop:
            run = range(run.start, frame + 1)
        else:
            if run:
                yield run
            run = range(frame, frame + 1)
    if run:
        yield run
