"""Converts a group's state to a snapshot, and a snapshot to a state.

Messages from `acked_until` on that are not in the snapshot become fresh and are examined again:
they were never leased, or their only lease was undone or never recorded.
"""

from __future__ import annotations

from array import array
from itertools import chain, repeat

from lakebed.base.errors import Corrupt
from lakebed.stroma import epochs
from lakebed.stroma.config import GroupConfig
from lakebed.stroma.format import SNAPSHOT_HEADER, U64_MAX, two_halves
from lakebed.stroma.message_status import SETTLED, StatusKind
from lakebed.stroma.runs import Runs
from lakebed.stroma.snapshot import Snapshot
from lakebed.stroma.snapshot_runs import SnapshotRuns
from lakebed.stroma.state import GroupState


def snapshot_of(
    state: GroupState,
    *,
    generation: int,
    created_ts_ms: int,
    incarnation: int = 0,
    ahead_ms: int = 0,
) -> Snapshot:
    """Returns the snapshot of a state.

    `ahead_ms` is how far the wall clock is ahead of the group's clock.
    """
    acked_ends = array("Q")
    acked_starts, leased, known = array("Q"), _Column(), _Column()
    for start, end, status in chain.from_iterable(state.runs.buckets()):
        if status is SETTLED:
            if acked_ends and acked_ends[-1] == start:
                acked_ends[-1] = end
            else:
                acked_starts.append(start)
                acked_ends.append(end)
        elif status.kind is StatusKind.LEASED:
            word = two_halves(status.epoch, status.deliveries)
            leased.add(start, end, max(0, status.time_ms + ahead_ms), word)
        elif status.kind is StatusKind.WAITING or status.deliveries:
            time_ms = status.time_ms
            if time_ms and not status.is_scheduled:
                time_ms = max(1, time_ms + ahead_ms)
            known.add(start, end, time_ms, two_halves(status.deliveries, 0))
    return Snapshot(
        generation=generation,
        incarnation=incarnation,
        created_ts_ms=created_ts_ms,
        acked_until=state.base,
        last_epoch=epochs.later(state.epoch, state.epoch_reserved),
        acked_starts=acked_starts,
        acked_ends=acked_ends,
        leased_offsets=leased.offsets,
        leased_deadlines=leased.times,
        leased_epochs=leased.words,
        known_offsets=known.offsets,
        known_not_before=known.times,
        known_counts=known.words,
    )


def state_of(snapshot: Snapshot, config: GroupConfig, *, now_ms: int) -> GroupState:
    """Returns the state that a snapshot describes; its runs are made when they are first used.

    Raises `Corrupt` if an offset is out of range.
    """
    state = GroupState(config)
    state.epoch = state.epoch_reserved = snapshot.last_epoch
    runs_source = SnapshotRuns(snapshot, now_ms=now_ms)
    end = runs_source.end
    if end > U64_MAX:
        raise Corrupt(
            "an offset in the snapshot is out of range", offset=SNAPSHOT_HEADER.size, found=end - 1
        )
    state.runs = Runs.made_later(runs_source.runs, runs_source.parts(), end=end)
    state.in_flight = len(snapshot.leased_offsets)
    state.settled_ahead = runs_source.settled_count
    if runs_source.message_count != end - state.base:
        state.unseen.append((state.base, end))  # some of these messages are fresh
    for time_ms, first, last in runs_source.timers():
        state.timers.add(time_ms, first, last)
    for time_ms, first, last in runs_source.schedules():
        state.schedules.add(time_ms, first, last)
    if 0 in snapshot.known_not_before:
        state.ready.append((state.base, end))
        if config.delivery_count_max:
            state.exhausted = runs_source.available(config.delivery_count_max)
    return state


class _Column:
    """Parallel columns of a snapshot, with one entry per message.

    They hold its offset, a time, and an integer whose meaning depends on the column's use.
    """

    def __init__(self) -> None:
        self.offsets, self.times, self.words = array("Q"), array("Q"), array("Q")

    def add(self, start: int, end: int, time_ms: int, word: int) -> None:
        if end - start == 1:
            self.offsets.append(start)
            self.times.append(time_ms)
            self.words.append(word)
        else:
            self.offsets.extend(range(start, end))
            self.times.extend(repeat(time_ms, end - start))
            self.words.extend(repeat(word, end - start))
