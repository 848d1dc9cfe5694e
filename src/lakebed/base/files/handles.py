"""A cache of open segments for a reader. If it is full, it evicts the least recently used segment.

Invariant: the cache keeps at most `count_max` segments. A segment that is in use when it is evicted
is closed when its last user has finished, so no read uses a closed file. Bytes that a read returned
stay valid. The number of descriptors is limited for the whole process; see `descriptors`.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, Protocol, TypeVar

from lakebed.base.errors import Closed
from lakebed.base.runner import Mutex


class Closable(Protocol):
    def close(self) -> None: ...


Info = TypeVar("Info")
Reading = TypeVar("Reading", bound=Closable)


class _Handle(Generic[Reading]):
    __slots__ = ("is_evicted", "lease_count", "reading")

    def __init__(self, reading: Reading) -> None:
        self.reading = reading
        self.lease_count = 0  # guarded by Handles._mutex, like is_evicted
        self.is_evicted = False


class Lease(Generic[Reading]):
    """Keeps a segment open until the end of the `with` block that uses the lease."""

    __slots__ = ("_give_back", "_handle")

    def __init__(
        self, handle: _Handle[Reading], give_back: Callable[[_Handle[Reading]], None]
    ) -> None:
        self._handle = handle
        self._give_back = give_back

    def __enter__(self) -> Reading:
        return self._handle.reading

    def __exit__(self, *_: object) -> None:
        self._give_back(self._handle)


class Handles(Generic[Info, Reading]):
    """The open segments of a reader. Thread-safe; files are opened and closed outside the lock.

    `key_of` maps a segment to its key in the cache. A segment whose key changes, for example
    because it was sealed, is opened again.
    """

    def __init__(
        self,
        open_segment: Callable[[Info], Reading],
        key_of: Callable[[Info], Hashable],
        *,
        mutex: Mutex,
        count_max: int,
    ) -> None:
        self._open_segment = open_segment
        self._key_of = key_of
        self._count_max = max(1, count_max)
        self._mutex = mutex
        self._kept: OrderedDict[Hashable, _Handle[Reading]] = OrderedDict()  # guarded by _mutex
        self._is_closed = False  # guarded by _mutex

    def __len__(self) -> int:
        return len(self._kept)

    def lease(self, info: Info) -> Lease[Reading]:
        """Returns a lease of the segment, for a `with` block. Opens the segment if the cache does
        not have it; raises `NotFound` if its file no longer exists, and `Closed` if the cache is
        closed.
        """
        return Lease(self._take(info) or self._open(info), self._give_back)

    def close(self) -> None:
        """Closes all segments; those that are leased are closed when their lease ends.
        Idempotent.
        """
        with self._mutex:
            self._is_closed = True
            idle = self._evict(0)
        _close_all(idle)

    def _give_back(self, handle: _Handle[Reading]) -> None:
        """Ends a lease, and closes the segment if it was evicted and this was its last lease."""
        with self._mutex:
            handle.lease_count -= 1
            is_last = handle.is_evicted and not handle.lease_count
        if is_last:
            handle.reading.close()

    def _take(self, info: Info) -> _Handle[Reading] | None:
        key = self._key_of(info)
        with self._mutex:
            self._check_open()
            handle = self._kept.get(key)
            if handle is not None:
                self._kept.move_to_end(key)
                handle.lease_count += 1
            return handle

    def _open(self, info: Info) -> _Handle[Reading]:
        fresh = _Handle(self._open_segment(info))
        key = self._key_of(info)
        with self._mutex:
            # If another thread opened the same segment in between, its handle is kept, and this one
            # is closed when its lease ends. This one is also closed then if the reader was closed.
            fresh.is_evicted = self._is_closed or key in self._kept
            fresh.lease_count = 1
            idle = []
            if not fresh.is_evicted:
                self._kept[key] = fresh
                idle = self._evict(self._count_max)
        _close_all(idle)
        return fresh

    def _evict(self, count_max: int) -> list[_Handle[Reading]]:
        """Evicts segments until `count_max` are left. Returns those that are not leased, for the
        caller to close. The caller must hold the mutex.
        """
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


def _close_all(handles: list[_Handle[Reading]]) -> None:
    for handle in handles:
        handle.reading.close()
