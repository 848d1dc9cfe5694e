"""Where some records of a segment begin: told by its `.idx`, and learned while it is read.

An index is derived and has no checksum, so it leads and is never believed: whoever follows it looks
whether the record is there, and has the place forgotten if it is not. What was learned is true of
the open file it was learned from.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import OrderedDict
from collections.abc import Iterable

from lakebed.base.runner import Mutex
from lakebed.base.units import KIB
from lakebed.keratin.format import RECORDS_START

STRIDE_BYTES = 64 * KIB  # nearer to a known place than that nothing is learned
_ENDS_MAX = 256
_TRIED_MAX = 3

Place = tuple[int, int]
"""A record's offset, and its position in the file."""


class RecordPositions:
    """Thread-safe."""

    def __init__(self, mutex: Mutex, places: Iterable[Place] = ()) -> None:
        self._mutex = mutex
        self._offsets: list[int] = []  # guarded by _mutex, as all of these; rising
        self._positions: list[int] = []  # rising, one for each offset
        self._ends: OrderedDict[int, int] = OrderedDict()  # where reads ended: others go on there
        for offset, position in places:
            self._offsets.append(offset)
            self._positions.append(position)

    def __len__(self) -> int:
        return len(self._offsets)

    def before(self, offset: int) -> list[Place]:
        """Some records at or before that offset, the nearest first."""
        with self._mutex:
            last = bisect_right(self._offsets, offset)
            indexes = range(last - 1, max(last - 1 - _TRIED_MAX, -1), -1)
            return [(self._offsets[index], self._positions[index]) for index in indexes]

    def end_at(self, offset: int) -> int | None:
        """Where a read ended right before that offset."""
        with self._mutex:
            return self._ends.get(offset)

    def learn(self, *, offset: int, start: int, next_offset: int, end: int) -> None:
        """Records from `offset` on stand at `[start, end)`, and were good."""
        with self._mutex:
            index = bisect_left(self._positions, start)
            before = self._positions[index - 1] if index else RECORDS_START
            behind = self._positions[index] if index < len(self._positions) else None
            is_far = start - before >= STRIDE_BYTES
            if is_far and (behind is None or behind - start >= STRIDE_BYTES):
                fits = not index or self._offsets[index - 1] < offset
                if fits and (behind is None or self._offsets[index] > offset):
                    self._offsets.insert(index, offset)
                    self._positions.insert(index, start)
            self._ends[next_offset] = end
            if len(self._ends) > _ENDS_MAX:
                self._ends.popitem(last=False)

    def forget(self, place: Place) -> None:
        """It led nowhere."""
        with self._mutex:
            index = bisect_left(self._offsets, place[0])
            if (self._offsets[index : index + 1], self._positions[index : index + 1]) == (
                [place[0]],
                [place[1]],
            ):
                del self._offsets[index], self._positions[index]
