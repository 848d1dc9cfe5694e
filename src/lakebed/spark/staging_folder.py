"""Stages record batches in a folder that the tasks share with the process that has the store open.

    <folder>/lock                                       held to decide, or to remove leftovers
    <folder>/<run>/decision.json                        which batches to commit
    <folder>/<run>/<ms>-<token>-<partition>.batches     <ms>: when the task began

Each attempt of a task has its own random token, so no two attempts write the same file. Any process
may remove the folder of a run while it is empty; a process that needs it creates it again.

What `finish` or `decide` has returned is durable. A decision that already exists is written once
more before it is used, because the process that wrote it may have died before it was durable.
`remove_leftovers` keeps an empty folder that a killed process left, because nothing shows how old
the folder is.
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
ATTEMPTS_MAX = 100  # to use a folder that other processes may remove

_RUN = re.compile(r"[0-9a-f]{32}-[0-9]{1,19}")
_STAGED = re.compile(r"([0-9]{13,19})-[0-9a-f]{16}-[0-9]{1,9}\.batches")
_POLICY = RetryPolicy(delay_ms_first=2.0, delay_ms_max=100.0, jitter=0.5)


class FolderStaging:
    """Keeps record batches in a folder until they are committed; implements
    `lakebed.spark.staging.Staging`.
    """

    def __init__(self, folder: str, *, disk: Disk, runner: Runner) -> None:
        self._folder = folder
        self._disk = disk
        self._runner = runner

    def writer(self, run: Run) -> FolderWriter:
        began_ms = self._now_ms()
        return FolderWriter(self._disk, self._run_folder(run), began_ms=began_ms)

    def decide(self, run: Run, batches: Batches) -> Batches:
        make_folders(self._disk, self._folder)
        with self._alone():
            decision = self._decision(run)
            decided = batches if decision is None else decision.batches
            data = encode_decision(Decision(self._now_ms(), decided))
            in_folder(
                self._disk,
                self._run_folder(run),
                lambda: replace_atomically(self._disk, self._file(run, DECISION), data),
            )
        return decided

    def forget(self, run: Run) -> None:
        with contextlib.suppress(NotFound):
            self._disk.unlink(self._file(run, DECISION))

    def discard(self, run: Run, batches: Batches) -> None:
        decision = self._decision(run)
        decided = set() if decision is None else decision.staged
        for staged in (batch for of_partition in batches.values() for batch in of_partition):
            if isinstance(staged, StagedFile) and staged not in decided:
                with contextlib.suppress(NotFound):
                    self._disk.unlink(staged.path)
        if decision is None:
            remove_if_empty(self._disk, self._run_folder(run))

    def remove(self, run: Run) -> None:
        folder = self._run_folder(run)
        self._remove(folder, self._names(folder))

    def remove_leftovers(self) -> int:
        removed_count = 0
        for name in self._names(self._folder):
            folder = os.path.join(self._folder, name)
            if not _RUN.fullmatch(name) or not self._is_left_over(folder, self._names(folder)):
                continue
            with self._alone():  # checked again: an attempt may have just used its decision
                names = self._names(folder)
                if self._is_left_over(folder, names):
                    self._remove(folder, names)
                    removed_count += 1
        return removed_count

    def _is_left_over(self, folder: str, names: list[str]) -> bool:
        """Returns whether a run is old enough to be removed: a day, or 30 days if it has a file
        with a decision.

        The age of a run is the age of its decision, or of its newest file of batches if it has no
        readable decision. A run with neither may be new, and is kept.
        """
        began = [int(match[1]) for match in map(_STAGED.fullmatch, names) if match]
        kept_ms, last_ms = KEPT_MS, max(began, default=None)
        if DECISION in names:
            with contextlib.suppress(LakebedError):
                last_ms = self._read_decision(os.path.join(folder, DECISION)).decided_ms
            kept_ms = KEPT_DECIDED_MS
        return last_ms is not None and self._now_ms() - last_ms > kept_ms

    def _remove(self, folder: str, names: list[str]) -> None:
        """Removes these files of a run, and then its folder if the folder is empty.

        The decision is removed first, so that no decision ever names missing files.
        """
        for name in sorted(names, key=lambda name: name != DECISION):
            with contextlib.suppress(NotFound):
                self._disk.unlink(os.path.join(folder, name))
        remove_if_empty(self._disk, folder)

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
        """Holds the lock of the staging folder within the `with` block.

        The lock is needed because a killed driver may have left a process that is still deciding
        which batches to commit. Raises `Locked` if the lock is not free within 30 seconds.
        """
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
        except NotFound:  # another process removed it
            return []

    def _run_folder(self, run: Run) -> str:
        return os.path.join(self._folder, run.name)

    def _file(self, run: Run, name: str) -> str:
        return os.path.join(self._run_folder(run), name)

    def _now_ms(self) -> int:
        return self._runner.clock.wall_ns() // NS_PER_MS


class FolderWriter:
    """Stages the batches of one task in one file per partition. At most one file is open at a
    time.
    """

    def __init__(self, disk: Disk, folder: str, *, began_ms: int) -> None:
        self._disk = disk
        self._folder = folder
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
            self._disk.sync_folder(self._folder)
        return {partition: [StagedFile(self._path(partition))] for partition in self._sizes}

    def discard(self) -> None:
        for partition in self._sizes:
            with contextlib.suppress(NotFound):
                self._disk.unlink(self._path(partition))
        if self._sizes:
            remove_if_empty(self._disk, self._folder)
        self._sizes = {}

    def _create(self, partition: int) -> None:
        if self._sizes:  # the folder is durable, and not empty
            self._disk.create(self._path(partition)).close()
        else:
            in_folder(
                self._disk,
                self._folder,
                lambda: self._disk.create(self._path(partition)).close(),
            )
        self._sizes[partition] = 0

    def _path(self, partition: int) -> str:
        return os.path.join(self._folder, f"{self._prefix}-{partition}.batches")


def in_folder(disk: Disk, folder: str, put: Callable[[], None]) -> None:
    """Creates the folder durably, then calls `put`, which creates a file in it.

    If another process removes the folder before `put` creates its file, tries again, up to a
    hundred times in total; then raises `NotFound`.
    """
    for attempts_left in reversed(range(ATTEMPTS_MAX)):
        make_folders(disk, folder)
        try:
            put()
        except NotFound:
            if not attempts_left:
                raise
        else:
            return


def remove_if_empty(disk: Disk, folder: str) -> None:
    with contextlib.suppress(NotFound, DiskError):  # not empty
        disk.remove_folder(folder)
