"""The files of an open group: appends events to the delta log, and folds it into snapshots.

Events are queued in the order in which they were applied, and are written in that order. A fold
replaces the snapshot by a new one that includes the events of the delta log, and then removes these
events from the delta log. It takes three steps. Events may be appended between the steps:

1. append a `FoldMark` to the delta log: the snapshot covers the events before it;
2. write the snapshot, outside of the queue, and replace the old one;
3. replace the old delta log with a new one that has the events after the mark.

After a failure, a fold is a single item of the queue: the snapshot covers all events queued before
it, and events queued after it go into the new delta log.

Invariants:
- a snapshot is durable before the delta log of its generation replaces the old one. After a crash
  between the two, the old delta log is older than the snapshot: only its events after the
  snapshot's mark count, and none if it has no such mark;
- after a failed write or sync, nothing more is appended, and all waiting calls are refused, until a
  snapshot of the state in memory and a new delta log have been written. The old files are not
  trusted again, and no generation is reused.

What may be lost: events that were not confirmed to a caller. With `after_write`, a power cut may
also lose the events of the last `sync_ms`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

from lakebed.base.commit import Barrier, CommitConfig, SpaceReserve, Ticket
from lakebed.base.counters import Counters
from lakebed.base.errors import LakebedError, Poisoned
from lakebed.base.files import Disk, File, fork_guard, replace_atomically
from lakebed.base.runner import Runner
from lakebed.base.units import MIB
from lakebed.stroma.config import GroupConfig
from lakebed.stroma.delta import encode_header
from lakebed.stroma.events import encode
from lakebed.stroma.format import EVENTS_START, FoldMark
from lakebed.stroma.paths import GroupPaths

QUEUE_BYTES_MAX = 64 * MIB
_QUEUE_COUNT_MAX = 65_536


class Append(NamedTuple):
    """A queue item: events to append to the delta log.

    With `must_sync`, all events up to these are synced. Without events, the item is done as soon as
    all earlier items are done and, with `must_sync`, synced.
    """

    events: Sequence[bytes]
    must_sync: bool


class Fold(NamedTuple):
    """A queue item: replaces the snapshot, and replaces the delta log with an empty one."""

    snapshot: bytes
    generation: int
    created_ts_ms: int


class Finish(NamedTuple):
    """A queue item: ends a fold by replacing the delta log with a new one that has these events."""

    events: Sequence[bytes]
    generation: int
    created_ts_ms: int


Item = Append | Fold | Finish


class OpenDelta(NamedTuple):
    """The open delta log, and the position at which to append."""

    file: File
    end: int


class DeltaSink:
    """Writes the queued items to the files, from one thread at a time."""

    def __init__(
        self,
        disk: Disk,
        paths: GroupPaths,
        delta: OpenDelta,
        *,
        incarnation: int,
        reserve: SpaceReserve,
    ) -> None:
        self._disk = disk
        self._paths = paths
        self._incarnation = incarnation
        self._reserve = reserve
        self._file: File | None = delta.file
        self._end = delta.end
        self.has_unsynced = False
        self.failure: LakebedError | None = None  # None again after a successful `Fold`
        self._process = fork_guard.generation()

    def commit(self, items: Sequence[Item]) -> Sequence[LakebedError | None]:
        results: list[LakebedError | None] = []
        appends: list[Append] = []
        for item in items:
            if isinstance(item, Append):
                appends.append(item)
            else:
                results += self._append_all(appends)
                appends = []
                results.append(self._failed(partial(self._replace, item)))
        return results + self._append_all(appends)

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def _append_all(self, appends: list[Append]) -> list[LakebedError | None]:
        if not appends:
            return []
        if self.failure is None:
            return [self._failed(partial(self._write, appends))] * len(appends)
        return [self._refusal(self.failure)] * len(appends)

    def _failed(self, action: Callable[[], None]) -> LakebedError | None:
        """Runs `action`; returns its error, or None if it succeeds.

        After an error, appends are refused until a `Fold` succeeds.
        """
        try:
            action()
        except LakebedError as error:
            self.failure = error
            return error
        return None

    def _write(self, appends: list[Append]) -> None:
        assert self._file is not None, "nothing may be appended after a failed fold"
        chunks = [b"".join(append.events) for append in appends if append.events]
        size = sum(map(len, chunks))
        self._reserve.check(size)
        if any(append.must_sync for append in appends):
            if chunks or self.has_unsynced:
                self._file.write_and_sync(self._end, chunks)
            self.has_unsynced = False
        elif chunks:
            self._file.pwrite(self._end, b"".join(chunks))
            self.has_unsynced = True
        self._end += size

    def _replace(self, item: Fold | Finish) -> None:
        if isinstance(item, Fold):
            self._fold(item)
        else:
            self._finish(item)

    def _fold(self, fold: Fold) -> None:
        fork_guard.check(self._process, self._paths.delta)  # a forked child must not replace it
        self.failure = None
        self.close_quietly()
        header = encode_header(
            generation=fold.generation,
            created_ts_ms=fold.created_ts_ms,
            incarnation=self._incarnation,
        )
        replace_atomically(self._disk, self._paths.snapshot, fold.snapshot)
        replace_atomically(self._disk, self._paths.delta, header)
        self._file = self._disk.open(self._paths.delta, writable=True)
        self._end = EVENTS_START
        self.has_unsynced = False

    def _finish(self, finish: Finish) -> None:
        fork_guard.check(self._process, self._paths.delta)
        if self.failure is not None:
            raise self._refusal(self.failure)
        header = encode_header(
            generation=finish.generation,
            created_ts_ms=finish.created_ts_ms,
            incarnation=self._incarnation,
        )
        data = b"".join((header, *finish.events))
        replace_atomically(self._disk, self._paths.delta, data)
        self.close_quietly()
        self._file = self._disk.open(self._paths.delta, writable=True)
        self._end = len(data)
        self.has_unsynced = False

    def save_snapshot(self, data: bytes) -> None:
        """Replaces the snapshot. Other threads may append events during the call.

        Only one thread at a time may call this.
        """
        fork_guard.check(self._process, self._paths.snapshot)
        replace_atomically(self._disk, self._paths.snapshot, data)

    def close_quietly(self) -> None:
        """Closes the old delta log; ignores errors, because the file is not needed any more."""
        with contextlib.suppress(LakebedError):
            self.close()
        self._file = None

    def _refusal(self, cause: LakebedError) -> Poisoned:
        return Poisoned(
            "write", self._paths.delta, why=f"refused because an earlier write failed: {cause}"
        )


class Journal:
    """The snapshot and the delta log of one open group.

    The group calls `append`, `fold` and the steps of a fold under its mutex, which orders the
    changes; it calls `save_snapshot` without holding the mutex.
    """

    def __init__(
        self,
        disk: Disk,
        paths: GroupPaths,
        delta: OpenDelta,
        *,
        generation: int,
        incarnation: int,
        snapshot_bytes: int,
        event_count: int,
        config: GroupConfig,
        runner: Runner,
        counters: Counters,
    ) -> None:
        self._config = config
        self.counters = counters
        reserve = SpaceReserve(disk, paths.folder, reserve_bytes=config.reserve_bytes)
        self._sink = DeltaSink(disk, paths, delta, incarnation=incarnation, reserve=reserve)
        self._barrier: Barrier[Item, None] = Barrier(
            self._sink,
            name=f"{paths.folder}/{paths.stem}",
            runner=runner,
            wake=_do_nothing,  # every caller that queues an item waits for it, which commits it
            config=CommitConfig(
                batch_bytes_max=QUEUE_BYTES_MAX // 8,
                queue_bytes_max=QUEUE_BYTES_MAX,
                queue_count_max=_QUEUE_COUNT_MAX,
            ),
            counters=counters,
        )
        self._folds = counters.counter("stroma_folds")
        self._bytes = counters.counter("stroma_bytes_written")
        self.generation = generation
        self.snapshot_bytes = snapshot_bytes
        self.delta_bytes = delta.end  # including queued events
        self.event_count = event_count
        self._tail: list[bytes] | None = None  # events since the mark of the running fold

    @property
    def failure(self) -> LakebedError | None:
        """The error because of which appends are refused until `fold` succeeds, or None."""
        return self._sink.failure

    @property
    def has_unsynced(self) -> bool:
        return self._sink.has_unsynced

    @property
    def is_fold_due(self) -> bool:
        """Whether the delta log is so large that it should be folded into a new snapshot.

        It must have reached a configured limit, and be at least as large as its snapshot.
        """
        if self.delta_bytes < self.snapshot_bytes:
            return False
        return (
            self.delta_bytes >= self._config.compaction_bytes
            or self.event_count >= self._config.compaction_events
        )

    def append(self, events: Sequence[bytes], *, must_sync: bool = False) -> Ticket[None]:
        """Queues events, and returns the ticket that the caller must wait for.

        Raises `Busy`, and changes nothing, if too much is queued.
        """
        size = sum(map(len, events))
        item = Append(events, must_sync or self._config.syncs_each)
        # An item may be larger than the queue: it is then counted as half of the queue.
        queued_bytes = min(size, QUEUE_BYTES_MAX // 2)
        ticket = self._barrier.submit(item, size=queued_bytes, timeout=0)
        self.delta_bytes += size
        self.event_count += len(events)
        self._bytes.add(size)
        if self._tail is not None:
            self._tail += events
        return ticket

    def begin_fold(self, events: Sequence[bytes]) -> tuple[int, Ticket[None]]:
        """Starts a fold of the delta log into a snapshot: queues `events`, and then a `FoldMark`.

        The snapshot covers all events before the mark, and none after it. Returns the generation of
        the snapshot, and the ticket that the caller must wait for.
        """
        generation = self.generation + 1
        marked_events = [*events, *encode([FoldMark(generation)])]
        ticket = self.append(marked_events, must_sync=True)
        self.generation = generation
        self._tail = []
        return generation, ticket

    def save_snapshot(self, data: bytes) -> None:
        """Replaces the snapshot. The mark of its fold must already be durable.

        This is called without the group's mutex, by one thread at a time.
        """
        self._sink.save_snapshot(data)
        self.snapshot_bytes = len(data)
        self._bytes.add(len(data))

    def finish_fold(self, *, generation: int, created_ts_ms: int) -> Ticket[None]:
        """Queues the last step of a fold, which replaces the delta log.

        The new delta log has only the events that the snapshot does not cover. The snapshot must
        already be durable. Returns the ticket that the caller must wait for.
        """
        events = tuple(self._tail or ())
        finish = Finish(events, generation, created_ts_ms)
        ticket = self._barrier.submit(finish, size=0, timeout=0)
        self._tail = None
        self.delta_bytes = EVENTS_START + sum(map(len, events))
        self.event_count = len(events)
        self._folds.add()
        self._bytes.add(self.delta_bytes)
        return ticket

    def end_fold(self) -> None:
        """Stops collecting events for the new delta log of a fold that has succeeded or failed."""
        self._tail = None

    def fold(self, snapshot: bytes, *, generation: int, created_ts_ms: int) -> Ticket[None]:
        """Queues a fold, which replaces the old snapshot with `snapshot` and empties the delta log.

        Returns the ticket that the caller must wait for. `generation` must be higher than any that
        was used before.
        """
        assert generation > self.generation, "a generation must not be reused"
        ticket = self._barrier.submit(Fold(snapshot, generation, created_ts_ms), size=0, timeout=0)
        self.generation = generation
        self.snapshot_bytes = len(snapshot)
        self.delta_bytes = EVENTS_START
        self.event_count = 0
        self._folds.add()
        self._bytes.add(len(snapshot) + EVENTS_START)
        return ticket

    def step(self) -> int | None:
        """Writes queued items that are due; returns the ns until more are due, or None."""
        return self._barrier.step()

    def close(self) -> None:
        """Writes the queued items and closes the delta log. Idempotent."""
        self._barrier.close()
        self._sink.close()


def _do_nothing() -> None:
    pass
