"""The segments a reader has open: a bounded number, the least recently used closed first.

Invariant: not more than `count_max` are kept; one that is in use when its turn comes is closed by
its last user, so no read ever meets a closed file. Bytes that were handed out are not affected:
a view keeps its map alive.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable

from lakebed.aof.segment_reading import SegmentReading
from lakebed.aof.view import SegmentInfo
from lakebed.base.errors import Closed
from lakebed.base.runner import Mutex

_Key = tuple[str, bool]


class _Handle:
    __slots__ = ("is_evicted", "lease_count", "reading")

    def __init__(self, reading: SegmentReading) -> None:
        self.reading = reading
        self.lease_count = 0  # guarded by Handles._mutex, as is_evicted
        self.is_evicted = False


class Lease:
    """An open segment that is not closed before the lease ends."""

    __slots__ = ("_handle", "_handles")

    def __init__(self, handles: Handles, handle: _Handle) -> None:
        self._handles = handles
        self._handle = handle

    def __enter__(self) -> SegmentReading:
        return self._handle.reading

    def __exit__(self, *_: object) -> None:
        self._handles.give_back(self._handle)


class Handles:
    """Thread-safe. Opening and closing files is done outside the lock."""

    def __init__(
        self,
        open_segment: Callable[[SegmentInfo], SegmentReading],
        *,
        mutex: Mutex,
        count_max: int,
    ) -> None:
        self._open_segment = open_segment
        self._count_max = max(1, count_max)
        self._mutex = mutex
        self._kept: OrderedDict[_Key, _Handle] = OrderedDict()  # guarded by _mutex
        self._is_closed = False  # guarded by _mutex

    def __len__(self) -> int:
        return len(self._kept)

    def lease(self, info: SegmentInfo) -> Lease:
        """The open segment, to be used in a `with`. `NotFound` if its file is gone."""
        return Lease(self, self._take(info) or self._open(info))

    def give_back(self, handle: _Handle) -> None:
        """The end of a lease."""
        with self._mutex:
            handle.lease_count -= 1
            is_last = handle.is_evicted and not handle.lease_count
        if is_last:
            handle.reading.close()

    def close(self) -> None:
        """Idempotent. Leases that are under way end as usual."""
        with self._mutex:
            self._is_closed = True
            idle = self._evict(0)
        _close_all(idle)

    def _take(self, info: SegmentInfo) -> _Handle | None:
        key = _key(info)
        with self._mutex:
            self._check_open()
            handle = self._kept.get(key)
            if handle is not None:
                self._kept.move_to_end(key)
                handle.lease_count += 1
            return handle

    def _open(self, info: SegmentInfo) -> _Handle:
        fresh = _Handle(self._open_segment(info))
        with self._mutex:
            # Another thread may have opened the same segment meanwhile: its handle is kept, and
            # this one ends with its lease. The same if the reader was closed.
            fresh.is_evicted = self._is_closed or _key(info) in self._kept
            fresh.lease_count = 1
            idle = []
            if not fresh.is_evicted:
                self._kept[_key(info)] = fresh
                idle = self._evict(self._count_max)
        _close_all(idle)
        return fresh

    def _evict(self, count_max: int) -> list[_Handle]:
        """Let go of all above `count_max`; those nobody uses, to be closed. Holds _mutex."""
        idle = []
        while len(self._kept) > count_max:
            _, handle = self._kept.popitem(last=False)
            handle.is_evicted = True
            if not handle.lease_count:
                idle.append(handle)
        return idle

    def _check_open(self) -> None:
        if self._is_closed:
            raise Closed("the reader is closed")


def _key(info: SegmentInfo) -> _Key:
    # A segment that was sealed since is opened anew, and then mapped.
    return info.path, info.is_sealed


def _close_all(handles: list[_Handle]) -> None:
    for handle in handles:
        handle.reading.close()
