"""Random reads in a warm file, wherever it is, at the cost of the frames they touch.

Invariant: not more than `cache_bytes_max` of inflated frames are kept, least recently used first
out, and always one. Bytes are checked when they are inflated, never later.
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
    """Thread-safe.

    Fetching and inflating are done outside the lock: two threads that want one frame at the same
    moment both fetch it.
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
        """Fetches the seek table. `DataError` if the source is no warm file."""
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
        """Of the segment's file."""
        return self._frames.size

    def read(self, offset: int, length: int) -> bytes:
        """The segment's bytes at `offset`: fewer than asked for only at its end."""
        start, end = max(offset, 0), min(offset + length, self.size)
        if start >= end:
            return b""
        wanted = self._frames.table.covering(start, end)
        parts = []
        for frame, content in zip(wanted, self._contents(wanted), strict=True):
            place = self._frames.table.inflated(frame)
            first, last = max(start - place.start, 0), min(end - place.start, len(content))
            parts.append(content if last - first == len(content) else content[first:last])
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def close(self) -> None:
        """Close the source and forget what is cached. Idempotent."""
        self._frames.close()
        with self._mutex:
            self._cached.clear()
            self._cached_bytes = 0

    def _contents(self, wanted: range) -> list[bytes]:
        found = self._take(wanted)
        for run in _runs(frame for frame in wanted if frame not in found):
            found.update(zip(run, self._frames.inflate(run), strict=True))
        contents = [found[frame] for frame in wanted]
        self._keep(wanted, contents)
        return contents

    def _take(self, wanted: range) -> dict[int, bytes]:
        with self._mutex:
            return {frame: self._cached[frame] for frame in wanted if frame in self._cached}

    def _keep(self, wanted: range, contents: list[bytes]) -> None:
        with self._mutex:
            for frame, content in zip(wanted, contents, strict=True):
                self._cached_bytes += len(content) - len(self._cached.pop(frame, b""))
                self._cached[frame] = content
            while self._cached_bytes > self._cache_bytes_max and len(self._cached) > 1:
                _, content = self._cached.popitem(last=False)
                self._cached_bytes -= len(content)


def _runs(frames: Iterator[int]) -> Iterator[range]:
    """Numbers that follow one another, as ranges."""
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
