"""A group's files while it is open: events are appended to the delta, now and then it is folded.

Events are queued in the order in which they were applied, and the barrier commits them in that
order. Folding the delta into a snapshot takes three steps, between which events are appended:

1. a `FoldMark` is appended to the delta: the snapshot has what stands before it;
2. the snapshot is written, outside of the queue, and takes the old one's place;
3. a new delta with the events that stand after the mark takes the old delta's place.

After a failure a fold is one item of the queue: what stands before it is in the snapshot, what
stands after it goes into the new delta.

Invariants:
- a snapshot is durable before the delta of its generation takes the old one's place: after a crash
  between the two the old delta is older than the snapshot, and counts only from the mark of that
  snapshot on; without one it is ignored;
- after a write or a sync that failed nothing is appended any more, and everything that waited is
  refused, until a snapshot of what is in memory and a new delta have been written: no file is
  trusted again, and no generation comes again.

What may be lost: events nobody was told are recorded; with `after_write`, in a power cut, also
those of the last `sync_ms`.
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
    """Events, or none: then it is done when all before it are."""

    events: Sequence[bytes]
    must_sync: bool


class Fold(NamedTuple):
    """A snapshot takes the place of the delta."""

    snapshot: bytes
    generation: int
    created_ts_ms: int


class Finish(NamedTuple):
    """A new delta, which begins with these events, takes the old one's place."""

    events: Sequence[bytes]
    generation: int
    created_ts_ms: int


Item = Append | Fold | Finish


class OpenDelta(NamedTuple):
    """The delta to go on in."""

    file: File
    end: int


class DeltaSink:
    """The barrier's sink: one writes at a time."""

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
        self.failure: LakebedError | None = None  # since the last fold
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
        """The action's error; nothing is appended behind one, until the next fold."""
        try:
            action()
        except LakebedError as error:
            self.failure = error
            return error
        return None

    def _write(self, appends: list[Append]) -> None:
        assert self._file is not None, "a fold failed, and was forgotten"
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
        fork_guard.check(self._process, self._paths.delta)  # by its name a child could replace it
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
        """Whatever is appended meanwhile. Once at a time."""
        fork_guard.check(self._process, self._paths.snapshot)
        replace_atomically(self._disk, self._paths.snapshot, data)

    def close_quietly(self) -> None:
        """The old delta is done with, whatever closing it says."""
        with contextlib.suppress(LakebedError):
            self.close()
        self._file = None

    def _refusal(self, cause: LakebedError) -> Poisoned:
        return Poisoned("write", self._paths.delta, why=f"refused after a failure: {cause}")


class Journal:
    """Its owner calls `append` and `fold` under the lock that orders the changes."""

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
            wake=_do_nothing,  # whoever hands over an item waits for it, and so commits it
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
        self.delta_bytes = delta.end  # with what is queued
        self.event_count = event_count
        self._tail: list[bytes] | None = None  # events since the mark of the fold under way

    @property
    def failure(self) -> LakebedError | None:
        """Why nothing can be appended before the next fold."""
        return self._sink.failure

    @property
    def has_unsynced(self) -> bool:
        return self._sink.has_unsynced

    @property
    def is_fold_due(self) -> bool:
        """Past either limit; but a delta smaller than its snapshot is left to grow."""
        if self.delta_bytes < self.snapshot_bytes:
            return False
        return (
            self.delta_bytes >= self._config.compaction_bytes
            or self.event_count >= self._config.compaction_events
        )

    def append(self, events: Sequence[bytes], *, must_sync: bool = False) -> Ticket[None]:
        """Queue events; wait for the ticket. `Busy` if too much is queued: nothing was done."""
        size = sum(map(len, events))
        item = Append(events, must_sync or self._config.syncs_each)
        # One call may be larger than the queue: it waits for room as the largest that fits would.
        queued = min(size, QUEUE_BYTES_MAX // 2)
        ticket = self._barrier.submit(item, size=queued, timeout=0)
        self.delta_bytes += size
        self.event_count += len(events)
        self._bytes.add(size)
        if self._tail is not None:
            self._tail += events
        return ticket

    def begin_fold(self, events: Sequence[bytes]) -> tuple[int, Ticket[None]]:
        """Append the last events that will be in a snapshot, and the mark; its generation."""
        generation = self.generation + 1
        marked = [*events, *encode([FoldMark(generation)])]
        ticket = self.append(marked, must_sync=True)
        self.generation = generation
        self._tail = []
        return generation, ticket

    def save_snapshot(self, data: bytes) -> None:
        """Of a fold whose mark is on the device. Not under the lock; once at a time."""
        self._sink.save_snapshot(data)
        self.snapshot_bytes = len(data)
        self._bytes.add(len(data))

    def finish_fold(self, *, generation: int, created_ts_ms: int) -> Ticket[None]:
        """Queue the last step of a fold whose snapshot is durable; wait for the ticket."""
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
        """Whatever became of it. Its generation does not come again."""
        self._tail = None

    def fold(self, snapshot: bytes, *, generation: int, created_ts_ms: int) -> Ticket[None]:
        """Queue a fold; wait for the ticket. The generation must be a new one."""
        assert generation > self.generation, "a generation must not come again"
        ticket = self._barrier.submit(Fold(snapshot, generation, created_ts_ms), size=0, timeout=0)
        self.generation = generation
        self.snapshot_bytes = len(snapshot)
        self.delta_bytes = EVENTS_START
        self.event_count = 0
        self._folds.add()
        self._bytes.add(len(snapshot) + EVENTS_START)
        return ticket

    def step(self) -> int | None:
        """Commit what somebody queued and did not wait for; ns until more is due, or None."""
        return self._barrier.step()

    def close(self) -> None:
        """Commit what is queued and let go of the file. Idempotent."""
        self._barrier.close()
        self._sink.close()


def _do_nothing() -> None:
    """Nobody needs to be woken."""
