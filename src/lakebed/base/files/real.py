"""The operating system's disk.

Writes and syncs use two functions that `lakebed.kernels.disk` passes in, so that a write and its
sync are one call that releases the interpreter lock. This package itself does not import kernels.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import itertools
import os
import stat
import threading
import uuid
import warnings
import weakref
from collections.abc import Callable, Iterator, Sequence
from types import TracebackType
from typing import NamedTuple, Protocol

from lakebed.base.errors import (
    BadName,
    Closed,
    DiskError,
    LakebedError,
    Locked,
    NotFound,
    Poisoned,
    from_os_error,
)
from lakebed.base.files import fork_guard
from lakebed.base.files.descriptors import DESCRIPTORS, Parkable
from lakebed.base.files.protocol import TEMPORARY_SUFFIX, PathLike
from lakebed.base.files.writing import WriteOutcome
from lakebed.base.layout import Buffer

_FILE_MODE = 0o600  # only the owner may read and write
_FOLDER_MODE = 0o700
_BOOT_ID_PATH = "/proc/sys/kernel/random/boot_id"


class WriteAndSync(Protocol):
    def __call__(
        self, fd: int, offset: int, chunks: Sequence[Buffer], *, sync: bool
    ) -> WriteOutcome: ...


class ZeroFill(Protocol):
    def __call__(self, fd: int, offset: int, length: int) -> WriteOutcome: ...


class Writers(NamedTuple):
    """The two functions that write. Each returns when all bytes are written, and synced if
    requested, or when a call has failed; the outcome then has the errno.
    """

    write_and_sync: WriteAndSync
    zero_fill: ZeroFill


@contextlib.contextmanager
def _translated(operation: str, path: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise from_os_error(error, operation=operation, path=path) from None
    except ValueError as error:  # "embedded null byte"
        raise BadName(f"{path!r}: {error}") from None


def _sync_file_system(fd: int) -> None:
    """Calls `syncfs`, which Python does not provide. Releases the interpreter lock."""
    import ctypes

    if ctypes.CDLL(None, use_errno=True).syncfs(fd):
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))


class RealFile:
    """An open file of the operating system.

    While the file is idle, it may be parked: its descriptor is closed, and the next use opens the
    file again. Parking first syncs unsynced bytes, because the kernel reports a failed write-back
    only to descriptors that are open at the time. `close` does not sync.
    """

    __slots__ = (
        "__weakref__",
        "_failure",
        "_fd",
        "_flags",
        "_generation",
        "_identity",
        "_is_closed",
        "_is_dirty",
        "_is_kept",
        "_lock",
        "_path",
        "_reference",
        "_use_count",
        "_was_used",
        "_writers",
    )

    def __init__(self, fd: int, path: str, writers: Writers, *, flags: int = os.O_RDONLY) -> None:
        """Takes over `fd`, which `DESCRIPTORS.open` returned. `flags` are used to open the file
        again after it was parked.
        """
        self._fd = fd
        self._path = path
        self._writers = writers
        self._flags = flags
        self._failure: str | None = None
        self._generation = fork_guard.generation()
        facts = os.fstat(fd)
        self._identity = (facts.st_dev, facts.st_ino)
        self._lock = threading.Lock()
        self._use_count = 0  # guarded by _lock, like `_fd` and the fields below
        self._was_used = True  # since the last call of `park`
        self._is_dirty = False  # has bytes that were not synced
        self._is_kept = False  # must not be parked
        self._is_closed = False
        self._reference: weakref.ref[Parkable] = weakref.ref(self)
        DESCRIPTORS.add(self._reference, path)

    @property
    def path(self) -> str:
        return self._path

    def size(self) -> int:
        fd = self._begin()
        try:
            with _translated("stat", self._path):
                return os.fstat(fd).st_size
        finally:
            self._end()

    def pread(self, offset: int, length: int) -> bytes:
        fd = self._begin()
        try:  # not `_translated`, which takes longer than a small read
            data = os.pread(fd, length, offset)
            if len(data) == length or not data:
                return data
            parts = [data]
            missing = length - len(data)
            while missing and (data := os.pread(fd, missing, offset + length - missing)):
                parts.append(data)
                missing -= len(data)
            return b"".join(parts)
        except OSError as error:
            raise from_os_error(error, operation="read", path=self._path) from None
        finally:
            self._end()

    def pwrite(self, offset: int, data: Buffer) -> None:
        self._write(offset, [data], sync=False)

    def write_and_sync(self, offset: int, chunks: Sequence[Buffer]) -> None:
        self._write(offset, chunks, sync=True)

    def sync(self) -> None:
        self._write(0, (), sync=True)

    def zero_fill(self, offset: int, length: int) -> None:
        fd = self._begin_writing()
        try:
            self._settle(self._writers.zero_fill(fd, offset, length))
        finally:
            self._end()

    def truncate(self, size: int) -> None:
        fd = self._begin_writing()
        try:
            with _translated("truncate", self._path):
                os.ftruncate(fd, size)
        finally:
            self._end()

    def declare_sealed(self) -> None:
        """Does nothing: the operating system cannot enforce it."""

    def descriptor(self) -> int:
        self.keep()
        return self._fd

    def close(self) -> None:
        if self._generation != fork_guard.generation():
            self._is_closed = True
            return
        with self._lock:
            self._is_closed = True
            fd, self._fd = self._fd, -1
        DESCRIPTORS.remove(self._reference)
        if fd >= 0:
            DESCRIPTORS.note_closed()
            with _translated("close", self._path):
                os.close(fd)

    def __enter__(self) -> RealFile:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def __del__(self) -> None:
        if not getattr(self, "_is_closed", True) and self._generation == fork_guard.generation():
            warnings.warn(f"{self._path} was not closed", ResourceWarning, stacklevel=2)
            with contextlib.suppress(LakebedError):
                self.close()

    # A `Parkable`.

    def park(self, *, is_urgent: bool) -> bool:
        if self._fd < 0 or not self._lock.acquire(blocking=False):
            return False
        try:
            if self._fd < 0 or self._use_count or self._is_kept:
                return False
            if self._was_used and not is_urgent:
                self._was_used = False
                return False
            if self._is_dirty and self._failure is None:
                outcome = self._writers.write_and_sync(self._fd, 0, (), sync=True)
                self._is_dirty = False
                self._note_failure(outcome.sync_errno)
            fd, self._fd = self._fd, -1
            DESCRIPTORS.note_closed()
            try:
                os.close(fd)
            except OSError as error:
                self._note_failure(error.errno or errno.EIO)
            return True
        finally:
            self._lock.release()

    def keep(self) -> None:
        self._begin()
        self._is_kept = True
        self._end()

    # Every use is between `_begin` and `_end`; in between, the descriptor stays open.

    def _begin(self) -> int:
        fork_guard.check(self._generation, self._path)
        with self._lock:
            if self._fd < 0:
                self._fd = self._opened_again()
            self._use_count += 1
            self._was_used = True
            return self._fd

    def _begin_writing(self) -> int:
        if self._failure is not None:
            raise Poisoned("write", self._path, why=self._failure)
        fd = self._begin()
        self._is_dirty = True
        return fd

    def _end(self) -> None:
        with self._lock:
            self._use_count -= 1

    def _opened_again(self) -> int:
        """Opens the file again after it was parked. Raises an error if the path has no file or
        another file.

        The caller must hold the lock.
        """
        if self._is_closed:
            raise Closed(f"{self._path}: the file is closed")
        try:
            with _translated("open", self._path):
                fd = DESCRIPTORS.open(self._path, self._flags)
        except NotFound:
            if self._flags & os.O_RDWR:
                raise DiskError(
                    "open", self._path, why="the file was removed while it was open"
                ) from None
            raise
        facts = os.fstat(fd)
        if (facts.st_dev, facts.st_ino) != self._identity:
            os.close(fd)
            DESCRIPTORS.note_closed()
            raise DiskError("open", self._path, why="the file was replaced while it was open")
        return fd

    def _write(self, offset: int, chunks: Sequence[Buffer], *, sync: bool) -> None:
        fd = self._begin_writing()
        try:
            self._settle(self._writers.write_and_sync(fd, offset, chunks, sync=sync))
            if sync:
                self._is_dirty = False
        finally:
            self._end()

    def _settle(self, outcome: WriteOutcome) -> None:
        self._note_failure(outcome.sync_errno)
        if outcome.sync_errno:
            error = OSError(outcome.sync_errno, "")
            raise from_os_error(error, operation="fdatasync", path=self._path)
        if outcome.write_errno:
            error = OSError(outcome.write_errno, "")
            raise from_os_error(error, operation="write", path=self._path)

    def _note_failure(self, sync_errno: int) -> None:
        if sync_errno:
            self._failure = f"an earlier sync failed: {os.strerror(sync_errno)}"


class RealLock:
    """An flock(2) that this process holds through one open file."""

    __slots__ = ("_fd",)

    def __init__(self, fd: int) -> None:
        self._fd = fd
        fork_guard.hold(self)

    def release(self) -> None:
        fork_guard.release(self)
        self.drop()

    def drop(self) -> None:
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)


class RealDisk:
    def __init__(self, writers: Writers) -> None:
        self._writers = writers
        # Random, because process ids are reused: a crashed process may have left such a file.
        self._token = os.urandom(4).hex()
        self._temporaries = itertools.count()

    def create(self, path: PathLike, *, size: int = 0) -> RealFile:
        file = self._open("create", path, os.O_RDWR | os.O_CREAT | os.O_EXCL)
        if size:
            try:
                file.truncate(size)
            except BaseException:
                with contextlib.suppress(LakebedError):
                    self.unlink(path)
                file.close()
                raise
        return file

    def open(self, path: PathLike, *, writable: bool = False) -> RealFile:
        return self._open("open", path, os.O_RDWR if writable else os.O_RDONLY)

    def exists(self, path: PathLike) -> bool:
        with _translated("stat", os.fspath(path)):
            return os.path.exists(path)

    def is_folder(self, path: PathLike) -> bool:
        return os.path.isdir(path)

    def is_symlink(self, path: PathLike) -> bool:
        return os.path.islink(path)

    def names(self, folder: PathLike) -> list[str]:
        with _translated("list", os.fspath(folder)):
            return sorted(DESCRIPTORS.with_room(lambda: os.listdir(folder)))

    def make_folder(self, path: PathLike) -> None:
        with _translated("create", os.fspath(path)):
            os.mkdir(path, _FOLDER_MODE)

    def remove_folder(self, path: PathLike) -> None:
        with _translated("remove", os.fspath(path)):
            os.rmdir(path)

    def rename(self, source: PathLike, target: PathLike) -> None:
        for path in (source, target):
            DESCRIPTORS.keep(os.fspath(path))
        with _translated("rename", os.fspath(target)):
            os.rename(source, target)

    def unlink(self, path: PathLike) -> None:
        DESCRIPTORS.keep(os.fspath(path))
        with _translated("unlink", os.fspath(path)):
            os.unlink(path)

    def sync_folder(self, folder: PathLike) -> None:
        self._sync(folder, os.fsync)

    def sync_tree(self, folder: PathLike) -> None:
        """Syncs the whole file system that contains the folder, with one call of `syncfs`."""
        self._sync(folder, _sync_file_system)

    @staticmethod
    def _sync(folder: PathLike, sync: Callable[[int], None]) -> None:
        path = os.fspath(folder)
        with _translated("open", path):
            fd = DESCRIPTORS.with_room(lambda: os.open(path, os.O_RDONLY | os.O_DIRECTORY))
        try:
            with _translated("fsync", path):
                sync(fd)
        finally:
            os.close(fd)

    def lock(self, path: PathLike) -> RealLock:
        path = os.fspath(path)
        with _translated("lock", path):
            flags = os.O_RDWR | os.O_CREAT
            fd = DESCRIPTORS.with_room(lambda: os.open(path, flags, _FILE_MODE))
        try:
            with _translated("lock", path):
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                # The process id is only for error messages; the kernel holds the lock.
                os.ftruncate(fd, 0)
                os.pwrite(fd, f"{os.getpid()}\n".encode(), 0)
        except BaseException as error:
            holder = os.pread(fd, 32, 0).split(b"\n")[0].decode("ascii", "replace")
            os.close(fd)
            if getattr(error, "code", None) in (errno.EAGAIN, errno.EACCES):
                by = f" by process {holder}" if holder.isdigit() else ""
                raise Locked(f"{path}: locked{by}") from None
            raise
        return RealLock(fd)

    def free_bytes(self, folder: PathLike) -> int:
        try:  # called at each commit: `_translated` takes twice as long as `statvfs`
            facts = os.statvfs(folder)
        except (OSError, ValueError):
            with _translated("stat", os.fspath(folder)):
                raise
        return facts.f_bavail * facts.f_frsize

    def boot_id(self) -> bytes:
        with _translated("read", _BOOT_ID_PATH), open(_BOOT_ID_PATH, encoding="ascii") as file:
            return uuid.UUID(file.read().strip()).bytes

    def temporary_name(self, path: PathLike) -> str:
        return f"{os.fspath(path)}.{self._token}-{next(self._temporaries)}{TEMPORARY_SUFFIX}"

    def _open(self, operation: str, path: PathLike, flags: int) -> RealFile:
        path = os.fspath(path)
        with _translated(operation, path):
            # Non-blocking, so that opening a pipe does not wait for ever.
            flags |= os.O_NONBLOCK
            fd = DESCRIPTORS.open(path, flags, _FILE_MODE)
            if not stat.S_ISREG(os.fstat(fd).st_mode):
                os.close(fd)
                DESCRIPTORS.note_closed()
                raise DiskError(operation, path, why="not a regular file")
        return RealFile(fd, path, self._writers, flags=flags & ~(os.O_CREAT | os.O_EXCL))
