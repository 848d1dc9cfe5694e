"""Batches that wait in a folder, which the tasks and whoever has the store open share.

    <folder>/lock                                       held while somebody decides
    <folder>/<run>/decision.json
    <folder>/<run>/<ms>-<token>-<partition>.batches     by when its task began

The names are of one attempt of one task alone, so nobody writes where another does. A run's folder
may be removed by anybody while it is empty: whoever puts something in it makes it again.

What may be lost: nothing that `finish` or `decide` returned. A decision that is found is written
once more before it counts, for whoever wrote it may have died before it was durable. A folder that
a kill left empty has no date, and stays.
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
from collections.abc import Callable, Iterator
from random import Random

from lakebed.base.clock import NS_PER_MS, NS_PER_S
from lakebed.base.errors import DiskError, LakebedError, Locked, NotFound
from lakebed.base.files import Disk, make_folders, read_file, replace_atomically
from lakebed.base.retry import Backoff, RetryPolicy
from lakebed.base.runner import Runner
from lakebed.spark.staging import (
    DECISION_BYTES_MAX,
    KEPT_DECIDED_MS,
    KEPT_MS,
    Batches,
    Decision,
    Run,
    decode_decision,
    encode_decision,
)
from lakebed.store.staged_batch import StagedFile

DECISION = "decision.json"
LOCK = "lock"
LOCK_WAIT_S = 30.0
ATTEMPTS_MAX = 100  # to put something in a folder that others remove

_RUN = re.compile(r"[0-9a-f]{32}-[0-9]{1,19}")
_STAGED = re.compile(r"([0-9]{13,19})-[0-9a-f]{16}-[0-9]{1,9}\.batches")
_POLICY = RetryPolicy(delay_ms_first=2.0, delay_ms_max=100.0, jitter=0.5)


class FolderStaging:
    """See `lakebed.spark.staging.Staging`."""

    def __init__(self, folder: str, *, disk: Disk, runner: Runner) -> None:
        self._folder = folder
        self._disk = disk
        self._runner = runner

    def writer(self, run: Run) -> FolderWriter:
        began_ms = self._now_ms()
        return FolderWriter(self._disk, self._place(run), began_ms=began_ms)

    def decide(self, run: Run, batches: Batches) -> Batches:
        make_folders(self._disk, self._folder)
        with self._alone():
            known = self._decision(run)
            decided = batches if known is None else known.batches
            data = encode_decision(Decision(self._now_ms(), decided))
            in_folder(
                self._disk,
                self._place(run),
                lambda: replace_atomically(self._disk, self._file(run, DECISION), data),
            )
        return decided

    def forget(self, run: Run) -> None:
        with contextlib.suppress(NotFound):
            self._disk.unlink(self._file(run, DECISION))

    def discard(self, run: Run, batches: Batches) -> None:
        known = self._decision(run)
        kept = set() if known is None else known.staged
        for staged in (one for theirs in batches.values() for one in theirs):
            if isinstance(staged, StagedFile) and staged not in kept:
                with contextlib.suppress(NotFound):
                    self._disk.unlink(staged.path)
        if known is None:
            remove_if_empty(self._disk, self._place(run))

    def remove(self, run: Run) -> None:
        place = self._place(run)
        self._remove(place, self._names(place))

    def remove_leftovers(self) -> int:
        found = 0
        for name in self._names(self._folder):
            place = os.path.join(self._folder, name)
            if not _RUN.fullmatch(name) or not self._is_left_over(place, self._names(place)):
                continue
            with self._alone():  # looked at again: nobody takes its decision up meanwhile
                names = self._names(place)
                if self._is_left_over(place, names):
                    self._remove(place, names)
                    found += 1
        return found

    def _is_left_over(self, place: str, names: list[str]) -> bool:
        """By the youngest task, or the decision. What has no date may be a moment old."""
        began = [int(found[1]) for found in map(_STAGED.fullmatch, names) if found]
        kept_ms, last_ms = KEPT_MS, max(began, default=None)
        if DECISION in names:
            with contextlib.suppress(LakebedError):
                last_ms = self._read_decision(os.path.join(place, DECISION)).decided_ms
            kept_ms = KEPT_DECIDED_MS
        return last_ms is not None and self._now_ms() - last_ms > kept_ms

    def _remove(self, place: str, names: list[str]) -> None:
        """These, the decision first: it is never without what it names."""
        for name in sorted(names, key=lambda name: name != DECISION):
            with contextlib.suppress(NotFound):
                self._disk.unlink(os.path.join(place, name))
        remove_if_empty(self._disk, place)

    def _decision(self, run: Run) -> Decision | None:
        try:
            return self._read_decision(self._file(run, DECISION))
        except NotFound:
            return None

    def _read_decision(self, path: str) -> Decision:
        data = read_file(self._disk, path, size_max=DECISION_BYTES_MAX)
        return decode_decision(data, path=path)

    @contextlib.contextmanager
    def _alone(self) -> Iterator[None]:
        """One decides at a time: a driver that was killed may have left one that still does."""
        backoff = Backoff(_POLICY, Random(secrets.randbits(64)))
        until_ns = self._runner.clock.monotonic_ns() + round(LOCK_WAIT_S * NS_PER_S)
        lock = None
        while lock is None:
            try:
                lock = self._disk.lock(os.path.join(self._folder, LOCK))
            except Locked:
                if self._runner.clock.monotonic_ns() > until_ns:
                    raise
                self._runner.sleep_ns(backoff.next_ns())
        try:
            yield
        finally:
            lock.release()

    def _names(self, folder: str) -> list[str]:
        try:
            return self._disk.names(folder)
        except NotFound:  # somebody else removes it, too
            return []

    def _place(self, run: Run) -> str:
        return os.path.join(self._folder, run.name)

    def _file(self, run: Run, name: str) -> str:
        return os.path.join(self._place(run), name)

    def _now_ms(self) -> int:
        return self._runner.clock.wall_ns() // NS_PER_MS


class FolderWriter:
    """A file for each partition; no more than one of them is open at a time."""

    def __init__(self, disk: Disk, place: str, *, began_ms: int) -> None:
        self._disk = disk
        self._place = place
        self._prefix = f"{began_ms:013d}-{secrets.token_hex(8)}"
        self._sizes: dict[int, int] = {}

    def append(self, partition: int, batch: bytes) -> None:
        if partition not in self._sizes:
            self._create(partition)
        with self._disk.open(self._path(partition), writable=True) as file:
            file.pwrite(self._sizes[partition], batch)
        self._sizes[partition] += len(batch)

    def finish(self) -> Batches:
        for partition in self._sizes:
            with self._disk.open(self._path(partition), writable=True) as file:
                file.sync()
        if self._sizes:
            self._disk.sync_folder(self._place)
        return {partition: [StagedFile(self._path(partition))] for partition in self._sizes}

    def discard(self) -> None:
        for partition in self._sizes:
            with contextlib.suppress(NotFound):
                self._disk.unlink(self._path(partition))
        if self._sizes:
            remove_if_empty(self._disk, self._place)
        self._sizes = {}

    def _create(self, partition: int) -> None:
        if self._sizes:  # in a folder that is durable, and not empty
            self._disk.create(self._path(partition)).close()
        else:
            in_folder(
                self._disk,
                self._place,
                lambda: self._disk.create(self._path(partition)).close(),
            )
        self._sizes[partition] = 0

    def _path(self, partition: int) -> str:
        return os.path.join(self._place, f"{self._prefix}-{partition}.batches")


def in_folder(disk: Disk, folder: str, put: Callable[[], None]) -> None:
    """Make the folder, durably, and put something in it; others may remove it until then."""
    for left in reversed(range(ATTEMPTS_MAX)):
        make_folders(disk, folder)
        try:
            put()
        except NotFound:
            if not left:
                raise
        else:
            return


def remove_if_empty(disk: Disk, folder: str) -> None:
    with contextlib.suppress(NotFound, DiskError):  # others are in it
        disk.remove_folder(folder)
