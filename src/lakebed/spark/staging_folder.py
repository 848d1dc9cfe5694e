"""Batches that wait in a folder, which the tasks and whoever has the store open share.

    <folder>/lock                                       held while somebody decides
    <folder>/<run>/decision.json
    <folder>/<run>/<ms>-<token>-<partition>.batches     by when its task began

The names are of one attempt of one task alone, so nobody writes where another does.
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
from collections.abc import Iterator
from random import Random

from lakebed.api.staged import StagedFile
from lakebed.base.clock import NS_PER_MS, NS_PER_S
from lakebed.base.errors import AlreadyExists, DiskError, LakebedError, Locked, NotFound
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

DECISION = "decision.json"
LOCK = "lock"
LOCK_WAIT_S = 30.0

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
        ensure_folder(self._disk, self._place(run))
        with self._alone():
            known = self._decision(run)
            if known is not None:
                return known.batches
            data = encode_decision(Decision(self._now_ms(), batches))
            replace_atomically(self._disk, self._file(run, DECISION), data)
        return batches

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
            with contextlib.suppress(NotFound, DiskError):  # others may be in it
                self._disk.remove_folder(self._place(run))

    def remove(self, run: Run) -> None:
        self.forget(run)  # first: a decision is never without what it names
        self._remove(self._place(run))

    def remove_leftovers(self) -> int:
        found = 0
        for name in self._names(self._folder):
            place = os.path.join(self._folder, name)
            if _RUN.fullmatch(name) and self._is_left_over(place):
                self._remove(place)
                found += 1
        return found

    def _is_left_over(self, place: str) -> bool:
        names = self._names(place)
        began = [int(found[1]) for found in map(_STAGED.fullmatch, names) if found]
        kept_ms, last_ms = KEPT_MS, max(began, default=0)
        if DECISION in names:
            with contextlib.suppress(LakebedError):
                last_ms = self._read_decision(os.path.join(place, DECISION)).decided_ms
            kept_ms = KEPT_DECIDED_MS
        return self._now_ms() - last_ms > kept_ms

    def _remove(self, place: str) -> None:
        for name in self._names(place):
            with contextlib.suppress(NotFound):
                self._disk.unlink(os.path.join(place, name))
        with contextlib.suppress(NotFound, DiskError):  # a late task may be in it
            self._disk.remove_folder(place)

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
        except (NotFound, DiskError):  # somebody else removes it, too
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
        self._sizes = {}

    def _create(self, partition: int) -> None:
        try:
            self._disk.create(self._path(partition)).close()
        except NotFound:
            ensure_folder(self._disk, self._place)
            self._disk.create(self._path(partition)).close()
        self._sizes[partition] = 0

    def _path(self, partition: int) -> str:
        return os.path.join(self._place, f"{self._prefix}-{partition}.batches")


def ensure_folder(disk: Disk, folder: str) -> None:
    """Fine if it is there, or another task makes it at the same time."""
    if disk.is_folder(folder):
        return
    with contextlib.suppress(AlreadyExists):
        make_folders(disk, folder)
    if not disk.is_folder(folder):  # a folder above was made by somebody else just now
        make_folders(disk, folder)
