"""Makes the runs of a snapshot from its columns, part by part as they are needed.

A run is a range of consecutive messages with the same status.

A snapshot may hold a million messages, but only a few of them are used soon. So opening a group
only reads the columns, and the runs of a part are made when that part is first used.

If a message is listed both as settled and as leased or waiting, which only a faulty writer causes,
it counts as settled.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from itertools import chain, compress
from operator import itemgetter, ne

from lakebed.stroma.format import lower_half, two_halves, upper_half
from lakebed.stroma.message_status import FRESH, SETTLED, MessageStatus, StatusKind
from lakebed.stroma.runs import Run
from lakebed.stroma.snapshot import Snapshot

PART_ENTRIES = 256  # of each column in one part
_ONE_DELIVERY = two_halves(1, 0)


class SnapshotRuns:
    """Makes runs from the columns of a snapshot.

    A lease or a delay lasts at most as long as the time that was left when the snapshot was stored,
    even if the wall clock has been set back since.
    """

    def __init__(self, snapshot: Snapshot, *, now_ms: int) -> None:
        self._snapshot = snapshot
        self._now_ms = now_ms

    @property
    def end(self) -> int:
        """The offset after the last message in the snapshot."""
        stored = self._snapshot
        ends = [stored.acked_until, *stored.acked_ends[-1:]]
        ends += [part[-1] + 1 for part in (stored.leased_offsets, stored.known_offsets) if part]
        return max(ends)

    @property
    def message_count(self) -> int:
        """The number of messages that are listed in the snapshot."""
        return (
            self.settled_count
            + len(self._snapshot.leased_offsets)
            + len(self._snapshot.known_offsets)
        )

    @property
    def settled_count(self) -> int:
        return sum(self._snapshot.acked_ends) - sum(self._snapshot.acked_starts)

    def parts(self) -> list[int]:
        """Returns the offset at which each part starts.

        A part is a range of messages whose runs are made together, when they are first used. It
        covers at most `PART_ENTRIES` entries of each column of the snapshot.
        """
        stored = self._snapshot
        columns = (stored.acked_starts, stored.leased_offsets, stored.known_offsets)
        cuts = {stored.acked_until, *chain(*(column[::PART_ENTRIES] for column in columns))}
        return sorted(cuts)

    def runs(self, start: int, end: int) -> tuple[list[int], list[MessageStatus]]:
        """Returns the runs of messages `[start, end)`: a list of starts and a list of statuses."""
        starts: list[int] = []
        values: list[MessageStatus] = []
        position, last_status = start, None
        for first, last, status in self._pieces(start, end):
            if first > position:
                starts.append(position)
                values.append(FRESH)
                last_status = FRESH
            if last > position:
                if status is not last_status:
                    starts.append(max(first, position))
                    values.append(status)
                    last_status = status
                position = last
        if position < end:
            starts.append(position)
            values.append(FRESH)
        return starts, values

    def timers(self) -> Iterator[tuple[int, int, int]]:
        """Yields the time at which each lease or delay ends, and its messages as start and end.

        Adjacent entries with the same time are combined.
        """
        stored = self._snapshot
        for start, end, deadline_ms in _stretches(stored.leased_offsets, stored.leased_deadlines):
            yield self._capped_ms(deadline_ms), start, end
        delayed = self._known(is_scheduled=False)
        for start, end, not_before_ms in _stretches(*delayed):
            yield self._capped_ms(not_before_ms), start, end

    def schedules(self) -> Iterator[tuple[int, int, int]]:
        """Yields the time of each scheduled message, and the message as start and end.

        Adjacent entries with the same time are combined.
        """
        for start, end, not_before_ms in _stretches(*self._known(is_scheduled=True)):
            yield not_before_ms, start, end

    def _known(self, *, is_scheduled: bool) -> tuple[array[int], array[int]]:
        """Returns the offsets and times of the waiting messages.

        Returns those that are scheduled if `is_scheduled`, otherwise those that are delayed.
        """
        stored = self._snapshot
        chosen = [
            time_ms > 0 and (word < _ONE_DELIVERY) is is_scheduled
            for time_ms, word in zip(stored.known_not_before, stored.known_counts, strict=True)
        ]
        return (
            array("Q", compress(stored.known_offsets, chosen)),
            array("Q", compress(stored.known_not_before, chosen)),
        )

    def available(self, deliveries_min: int) -> list[tuple[int, int]]:
        """Returns the available messages that were leased at least `deliveries_min` times.

        Each message is a range of its own.
        """
        stored = self._snapshot
        word_min = deliveries_min << 32
        return [
            (offset, offset + 1)
            for offset, not_before_ms, word in zip(
                stored.known_offsets, stored.known_not_before, stored.known_counts, strict=True
            )
            if not not_before_ms and word >= word_min
        ]

    def _pieces(self, start: int, end: int) -> list[Run[MessageStatus]]:
        stored = self._snapshot
        low = bisect_right(stored.acked_ends, start)
        high = bisect_left(stored.acked_starts, end)
        pieces: list[Run[MessageStatus]] = [
            (max(first, start), min(last, end), SETTLED)
            for first, last in zip(
                stored.acked_starts[low:high], stored.acked_ends[low:high], strict=True
            )
        ]
        for is_leased, offsets, times, words in (
            (True, stored.leased_offsets, stored.leased_deadlines, stored.leased_epochs),
            (False, stored.known_offsets, stored.known_not_before, stored.known_counts),
        ):
            low, high = bisect_left(offsets, start), bisect_left(offsets, end)
            last_ms = last_word = -1
            status = FRESH
            for offset, time_ms, word in zip(
                offsets[low:high], times[low:high], words[low:high], strict=True
            ):
                if word != last_word or time_ms != last_ms:
                    status = self._status(time_ms, word, is_leased)
                    last_ms, last_word = time_ms, word
                pieces.append((offset, offset + 1, status))
        pieces.sort(key=itemgetter(0))
        return pieces

    def _status(self, time_ms: int, word: int, is_leased: bool) -> MessageStatus:
        if is_leased:
            return MessageStatus(
                StatusKind.LEASED, lower_half(word), self._capped_ms(time_ms), upper_half(word)
            )
        status = MessageStatus(
            StatusKind.WAITING if time_ms else StatusKind.AVAILABLE, upper_half(word), time_ms
        )
        if time_ms and not status.is_scheduled:
            return status._replace(time_ms=self._capped_ms(time_ms))
        return status

    def _capped_ms(self, deadline_ms: int) -> int:
        left_ms = max(0, deadline_ms - self._snapshot.created_ts_ms)
        return min(deadline_ms, self._now_ms + left_ms)


def _stretches(offsets: array[int], times: array[int]) -> Iterator[tuple[int, int, int]]:
    """Combines adjacent entries with the same time.

    Yields the first offset, the offset after the last offset, and the time. The offsets between
    them may include offsets that have no entry.
    """
    changes = compress(range(1, len(times)), map(ne, times, times[1:]))
    first = 0
    for index in chain(changes, [len(times)] if times else []):
        yield offsets[first], offsets[index - 1] + 1, times[first]
        first = index
