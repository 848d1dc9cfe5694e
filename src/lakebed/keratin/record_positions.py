"""The known positions of some records of a segment, from its `.idx` and from earlier reads.

An `.idx` has no checksum over its entries, so its positions are only hints: a reader verifies that
the record is there, and calls `forget` if it is not. Positions from earlier reads are valid only
for the open file that was read.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import OrderedDict
from collections.abc import Iterable

from lakebed.base.runner import Mutex
from lakebed.base.units import KIB
from lakebed.keratin.format import RECORDS_START

STRIDE_BYTES = 64 * KIB  # the least distance between two learned positions
_ENDS_MAX = 256
_TRIED_MAX = 3

Place = tuple[int, int]
"""A record's offset, and its position in the file."""


class RecordPositions:
    """The known record positions of one open segment file. Thread-safe."""

    def __init__(self, mutex: Mutex, places: Iterable[Place] = ()) -> None:
        self._mutex = mutex
        # The mutex guards all of the following.
        self._offsets: list[int] = []  # rising
        self._positions: list[int] = []  # rising, one for each offset
        # Where reads ended, by the next offset: the next read often continues there.
        self._ends: OrderedDict[int, int] = OrderedDict()
        for offset, position in places:
            self._offsets.append(offset)
            self._positions.append(position)

    def __len__(self) -> int:
        return len(self._offsets)

    def before(self, offset: int) -> list[Place]:
        """Returns up to three known records at or before that offset, the nearest first."""
        with self._mutex:
            last = bisect_right(self._offsets, offset)
            indexes = range(last - 1, max(last - 1 - _TRIED_MAX, -1), -1)
            return [(self._offsets[index], self._positions[index]) for index in indexes]

    def end_at(self, offset: int) -> int | None:
        """Returns where in the file the messages before `offset` end.

        This is known if an earlier read ended just before `offset`. Otherwise returns None.
        """
        with self._mutex:
            return self._ends.get(offset)

    def learn(self, *, offset: int, start: int, next_offset: int, end: int) -> None:
        """Remembers where a read found good records.

        The records with offsets in `[offset, next_offset)` are in bytes `[start, end)` of the file.
        Their end is always remembered; their start only if it is at least `STRIDE_BYTES` from the
        first record and from every known position.
        """
        with self._mutex:
            index = bisect_left(self._positions, start)
            previous = self._positions[index - 1] if index else RECORDS_START
            following = self._positions[index] if index < len(self._positions) else None
            is_far = start - previous >= STRIDE_BYTES
            if is_far and (following is None or following - start >= STRIDE_BYTES):
                fits = not index or self._offsets[index - 1] < offset
                if fits and (following is None or self._offsets[index] > offset):
                    self._offsets.insert(index, offset)
                    self._positions.insert(index, start)
            self._ends[next_offset] = end
            if len(self._ends) > _ENDS_MAX:
                self._ends.popitem(last=False)

    def forget(self, place: Place) -> None:
        """Forgets a position at which the expected record was not found."""
        with self._mutex:
            index = bisect_left(self._offsets, place[0])
            if (self._offsets[index : index + 1], self._positions[index : index + 1]) == (
                [place[0]],
                [place[1]],
            ):
                del self._offsets[index], self._positions[index]
