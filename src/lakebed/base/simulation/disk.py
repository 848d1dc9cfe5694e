"""A simulated disk: implements `Disk` in memory, with the faults of real disks.

- Unsynced bytes may be lost, kept, or torn at sector boundaries (`node`). The entries of unsynced
  folders may be lost or kept (`folders`).
- After `restart(Crash.KILL)` the page cache still exists: only the process died. With
  `restart(Crash.POWER)` the page cache is lost; the seed decides which part of it had reached the
  device.
- Writes can stop short, fail, or find the disk full; syncs, renames and closes can fail (`faults`).
- A crash can be planned for any step. The operation of that step is not executed, except that a
  random part of a write may be executed.

After a crash, reading or writing through a handle that was opened before it raises `SimulatedCrash`
again, so that code that is being unwound cannot change what survived.
"""

from __future__ import annotations

import errno
import os
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import Enum
from functools import lru_cache
from pathlib import PurePosixPath
from random import Random

from lakebed.base.errors import Locked
from lakebed.base.files.protocol import TEMPORARY_SUFFIX, PathLike
from lakebed.base.simulation.faults import AfterFailedSync, Faults
from lakebed.base.simulation.folders import Change, Entry, Folder, Tree
from lakebed.base.simulation.node import (
    BLOCK_BYTES,
    UNBOUNDED_BYTES,
    Keep,
    Node,
    keep_any,
    keep_everything,
    keep_nothing,
)
from lakebed.base.simulation.open_file import SimulatedFile, simulated_error
from lakebed.base.simulation.scheduler import Scheduler, SimulatedCrash

NAME_BYTES_MAX = 255


class Crash(Enum):
    KILL = "kill"
    POWER = "power"


class SimulatedDisk:
    """A disk in memory. It starts with the empty folder "/", to which relative paths refer."""

    def __init__(
        self,
        random: Random,
        *,
        scheduler: Scheduler | None = None,
        capacity_bytes: int = UNBOUNDED_BYTES,
    ) -> None:
        self.faults = Faults()
        self.steps = 0
        self.read_bytes = 0  # by `pread`, in all files
        self.open_paths: Counter[str] = Counter()  # path → number of open handles
        self.trace: list[str] = []
        self.capacity_bytes = capacity_bytes
        self.scheduler = scheduler
        self._random = random
        self._tree = Tree()
        self._life = 0
        self._boots = 1
        self._crashed = False
        self._undisturbed = False
        self._locked: set[str] = set()
        self._temporaries = 0

    # Methods for tests.

    def restart(self, crash: Crash, *, survivors: int = 0) -> None:
        """Restarts the disk after a crash, without locks and planned faults.

        After a power loss, `survivors` decides what is kept: 0 keeps only synced data, 1 keeps
        everything. With any other number, a random choice of the unsynced sectors is kept, and of
        the unsynced changes of folders: if the number is even, all up to a random one; if it is
        odd, any of them.
        """
        self._life += 1
        self.open_paths.clear()
        self._crashed = False
        self._locked.clear()
        self.faults = Faults()
        if crash is Crash.POWER:
            self._boots += 1
            if survivors == 0:
                self._tree.lose_power(keep_nothing, keep_nothing)
            elif survivors == 1:
                self._tree.lose_power(keep_everything, keep_everything)
            else:
                keep = keep_any(Random(f"{self._random.random()} {survivors}"))
                units = _until_first_loss(keep) if survivors % 2 == 0 else keep
                self._tree.lose_power(units, keep)
        for node in self._tree.entries():
            if isinstance(node, Node):
                node.sealed = False

    def copy(self, random: Random, *, scheduler: Scheduler | None = None) -> SimulatedDisk:
        """Returns an independent disk with the same contents, but without handles, locks and
        planned faults.
        """
        twin = SimulatedDisk(random, scheduler=scheduler, capacity_bytes=self.capacity_bytes)
        twin._tree = self._tree.copy()
        twin._temporaries = self._temporaries
        twin._boots = self._boots
        return twin

    def damage(self, path: PathLike, *, offset: int, data: bytes) -> None:
        """Overwrites bytes of a file, also on the device, to simulate damage."""
        self._node(path).overwrite(offset, data)

    def cut(self, path: PathLike, *, size: int) -> None:
        """Truncates a file, also on the device, to simulate damage."""
        self._node(path).cut(size)

    def lose(self, path: PathLike) -> None:
        """Removes a file or folder durably, without counting as a disk operation."""
        folder, name = self._parent(path)
        folder.cached.pop(name, None)
        folder.device.pop(name, None)

    def place(self, path: PathLike, content: bytes) -> None:
        """Creates or replaces a file durably, without counting as a disk operation. Its folder must
        exist.
        """
        folder, name = self._parent(path)
        node = Node()
        node.write(0, content)
        node.sync()
        folder.cached[name] = folder.device[name] = node

    def size_of(self, path: PathLike) -> int:
        """Returns the size of a file, without counting as a disk operation."""
        return len(self._node(path).cached)

    def content_of(self, path: PathLike) -> bytes:
        """Returns the bytes of a file, without counting as a disk operation."""
        return bytes(self._node(path).cached)

    def file_paths(self) -> list[str]:
        """Returns the paths of all files, sorted, without counting as a disk operation."""
        return self._tree.file_paths()

    def flip_bit(self, path: PathLike, *, offset: int, bit: int = 0) -> None:
        """Flips a bit of a file, also on the device, to simulate damage."""
        self._node(path).flip_bit(offset, bit)

    # The `Disk` protocol.

    def create(self, path: PathLike, *, size: int = 0) -> SimulatedFile:
        folder, name = self._parent(path)
        self.begin("create", path)
        if name in folder.cached:
            raise simulated_error(errno.EEXIST, "create", path)
        if size < 0:
            raise simulated_error(errno.EINVAL, "truncate", path)
        node = Node()
        if size:
            node.truncate(size)
        self._tree.apply(Change(folder, name, node))
        return SimulatedFile(self, node, os.fspath(path), writable=True)

    def open(self, path: PathLike, *, writable: bool = False) -> SimulatedFile:
        self.look("open", path)
        if writable and self.faults.read_only:
            raise simulated_error(errno.EROFS, "open", path)
        return SimulatedFile(self, self._node(path), os.fspath(path), writable=writable)

    def exists(self, path: PathLike) -> bool:
        self.look("stat", path)
        return self._tree.find(_parts(path)) is not None

    def is_folder(self, path: PathLike) -> bool:
        self.look("stat", path)
        return isinstance(self._tree.find(_parts(path)), Folder)

    def is_symlink(self, path: PathLike) -> bool:  # noqa: ARG002 - there are none
        return False

    def names(self, folder: PathLike) -> list[str]:
        self.look("list", folder)
        return sorted(self._folder(folder).cached)

    def make_folder(self, path: PathLike) -> None:
        folder, name = self._parent(path)
        self.begin("mkdir", path)
        if name in folder.cached or not name:
            raise simulated_error(errno.EEXIST, "create", path)
        self._tree.apply(Change(folder, name, Folder()))

    def remove_folder(self, path: PathLike) -> None:
        folder, name = self._parent(path)
        self.begin("rmdir", path)
        if self._folder(path).cached:
            raise simulated_error(errno.ENOTEMPTY, "remove", path)
        self._tree.apply(Change(folder, name, None))

    def rename(self, source: PathLike, target: PathLike) -> None:
        folder, name = self._parent(source)
        target_folder, target_name = self._parent(target)
        self.begin("rename", target)
        if name not in folder.cached:
            raise simulated_error(errno.ENOENT, "rename", source)
        entry = folder.cached[name]
        replaced = target_folder.cached.get(target_name)
        if isinstance(replaced, Folder) and (isinstance(entry, Node) or replaced.cached):
            raise simulated_error(errno.EISDIR, "rename", target)
        self._tree.apply(Change(folder, name, None), Change(target_folder, target_name, entry))

    def unlink(self, path: PathLike) -> None:
        folder, name = self._parent(path)
        self.begin("unlink", path)
        if name not in folder.cached:
            raise simulated_error(errno.ENOENT, "unlink", path)
        if isinstance(folder.cached[name], Folder):
            raise simulated_error(errno.EISDIR, "unlink", path)
        self._tree.apply(Change(folder, name, None))

    def sync_folder(self, folder: PathLike) -> None:
        self.begin("fsync", folder)
        self._tree.sync(self._folder(folder))

    def sync_tree(self, folder: PathLike) -> None:
        """Syncs only the files and folders below `folder`, although a real disk may sync more."""
        self.step("fsync", folder)
        fault = self.faults.due("fsync")
        entries = self._tree.entries(below=self._folder(folder))
        if fault is not None:
            is_reverted = fault.after is AfterFailedSync.REVERTED
            for node in entries:
                if isinstance(node, Node):
                    node.fail_sync(keep_any(self._random), revert=is_reverted)
            raise simulated_error(fault.code, "fsync", folder)
        for entry in entries:
            if isinstance(entry, Node):
                entry.sync()
            else:
                self._tree.sync(entry)

    def lock(self, path: PathLike) -> SimulatedLock:
        self.look("lock", path)
        if os.fspath(path) in self._locked:
            raise Locked(f"{os.fspath(path)}: locked")
        if not self.exists(path):
            self.create(path).close()
        self._locked.add(os.fspath(path))
        return SimulatedLock(self._locked, os.fspath(path))

    def free_bytes(self, folder: PathLike) -> int:
        self.look("stat", folder)
        return max(0, self.capacity_bytes - self.used_bytes())

    def boot_id(self) -> bytes:
        return self._boots.to_bytes(16, "big")

    def temporary_name(self, path: PathLike) -> str:
        self._temporaries += 1
        return f"{os.fspath(path)}.{self._temporaries}{TEMPORARY_SUFFIX}"

    # Methods for open files.

    @property
    def life(self) -> int:
        return self._life

    @property
    def random(self) -> Random:
        return self._random

    @property
    def is_down(self) -> bool:
        """Whether the disk has crashed and was not restarted yet."""
        return self._crashed or (self.scheduler is not None and self.scheduler.crash is not None)

    @contextmanager
    def undisturbed(self) -> Iterator[None]:
        """Prevents switches to other threads during the disk operations in the `with` block. The
        operations still count as steps.
        """
        before, self._undisturbed = self._undisturbed, True
        try:
            yield
        finally:
            self._undisturbed = before

    def used_bytes(self) -> int:
        nodes = [entry for entry in self._tree.entries() if isinstance(entry, Node)]
        return sum(len(node.blocks) for node in nodes) * BLOCK_BYTES

    def look(self, operation: str, path: PathLike) -> None:
        """Starts an operation that changes nothing. Other threads may run first. Raises an error if
        a fault is planned for the operation.
        """
        self._pause(operation, path)
        self._fail_if_due(operation, path)

    def step(
        self, operation: str, path: PathLike, *, before_crash: Callable[[], None] | None = None
    ) -> None:
        """Starts an operation that changes or syncs something: counts and traces it. If a crash is
        planned for this step, calls `before_crash` and crashes instead.
        """
        self._pause(operation, path)
        if self.steps == self.faults.crash_at_step:
            if before_crash is not None:
                before_crash()
            self._crash(f"crash at step {self.steps}: {operation} {os.fspath(path)}")
        if self.scheduler is None or self.scheduler.keeps_trace:
            self.trace.append(f"{self.steps} {operation} {os.fspath(path)}")
        self.steps += 1
        if self.faults.crash_after is not None and self.faults.crash_after[0] == operation:
            self.faults.crash_at_step = self.steps + self.faults.crash_after[1]
            self.faults.crash_after = None

    def begin(self, operation: str, path: PathLike) -> None:
        """Calls `step`, and then raises an error if a fault is planned for the operation."""
        self.step(operation, path)
        self._fail_if_due(operation, path)

    def _pause(self, operation: str, path: PathLike) -> None:
        if self.scheduler is not None and not self._crashed and not self._undisturbed:
            self.scheduler.pause(operation, os.fspath(path))
            if operation in self.faults.slow_ns:
                self.scheduler.sleep_ns(self.faults.slow_ns[operation])
        if self.is_down:
            raise SimulatedCrash("the disk has crashed")

    def _crash(self, what: str) -> None:
        self._crashed = True
        self.trace.append(what)
        crash = SimulatedCrash(what)
        if self.scheduler is not None:
            self.scheduler.halt(crash)
        raise crash

    def _fail_if_due(self, operation: str, path: PathLike) -> None:
        fault = self.faults.due(operation, os.fspath(path))
        if fault is not None:
            # The real disk uses the name `read` in errors.
            raise simulated_error(fault.code, "read" if operation == "pread" else operation, path)

    def _node(self, path: PathLike) -> Node:
        entry = self._entry(path)
        if isinstance(entry, Folder):
            raise simulated_error(errno.EISDIR, "open", path)
        return entry

    def _folder(self, path: PathLike) -> Folder:
        entry = self._entry(path)
        if isinstance(entry, Node):
            raise simulated_error(errno.ENOTDIR, "open", path)
        return entry

    def _entry(self, path: PathLike) -> Entry:
        entry = self._tree.find(_parts(path))
        if entry is None:
            raise simulated_error(errno.ENOENT, "open", path)
        return entry

    def _parent(self, path: PathLike) -> tuple[Folder, str]:
        parts = _parts(path)
        if not parts:
            raise simulated_error(errno.EEXIST, "create", path)
        folder = self._tree.find(parts[:-1])
        if isinstance(folder, Folder):
            return folder, parts[-1]
        return self._folder("/" + "/".join(parts[:-1])), parts[-1]  # raises


class SimulatedLock:
    def __init__(self, locked: set[str], path: str) -> None:
        self._locked = locked
        self._path: str | None = path

    def release(self) -> None:
        if self._path is not None:
            self._locked.discard(self._path)
            self._path = None


def _parts(path: PathLike) -> tuple[str, ...]:
    return _parts_of(os.fspath(path))


@lru_cache(maxsize=4096)  # called by every operation; there are few paths
def _parts_of(path: str) -> tuple[str, ...]:
    parts = PurePosixPath(path).parts
    if ".." in parts or "\0" in path:
        raise simulated_error(errno.EINVAL, "open", path)
    if any(len(os.fsencode(part)) > NAME_BYTES_MAX for part in parts):
        raise simulated_error(errno.ENAMETOOLONG, "open", path)
    return tuple(part for part in parts if part != "/")


def _until_first_loss(keep: Keep) -> Keep:
    """Returns a `Keep` that chooses like `keep` until it loses an entry, and then loses all later
    entries.
    """
    lost = False

    def prefix(versions: int) -> int:
        nonlocal lost
        choice = 0 if lost else keep(versions)
        lost = lost or choice == 0
        return choice

    return prefix
