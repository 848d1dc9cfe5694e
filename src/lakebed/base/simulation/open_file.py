"""An open file of a simulated disk. Its writes may stop short, and writes and syncs may fail."""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence
from contextlib import AbstractContextManager
from types import TracebackType
from typing import TYPE_CHECKING

from lakebed.base.errors import Closed, LakebedError, Poisoned, from_os_error
from lakebed.base.files.protocol import PathLike
from lakebed.base.files.writing import WriteOutcome, write_all, zero_all
from lakebed.base.layout import Buffer
from lakebed.base.simulation.faults import AfterFailedSync
from lakebed.base.simulation.node import BLOCK_BYTES, UNBOUNDED_BYTES, Node, keep_any
from lakebed.base.simulation.scheduler import SimulatedCrash

if TYPE_CHECKING:
    from lakebed.base.simulation.disk import SimulatedDisk


class SealedFileChanged(AssertionError):
    """A file was changed or truncated after it was declared sealed.

    Writing the same bytes again is allowed: recovery does so if it does not know whether the bytes
    are durable.
    """


class SimulatedFile(AbstractContextManager["SimulatedFile"]):
    """An open file that can be used until the simulated disk crashes."""

    def __init__(self, disk: SimulatedDisk, node: Node, path: str, *, writable: bool) -> None:
        self._disk = disk
        self._node = node
        self._path = path
        self._writable = writable
        self._life = disk.life
        self._closed = False
        self._failure: str | None = None
        disk.open_paths[path] += 1

    @property
    def path(self) -> str:
        return self._path

    def size(self) -> int:
        self._check("stat")
        return len(self._node.cached)

    def pread(self, offset: int, length: int) -> bytes:
        self._check("read")
        self._disk.look("pread", self._path)
        if offset < 0:
            raise simulated_error(errno.EINVAL, "read", self._path)
        data = bytes(self._node.cached[offset : offset + length])
        self._disk.read_bytes += len(data)
        return data

    def descriptor(self) -> None:
        return None

    def pwrite(self, offset: int, data: Buffer) -> None:
        self._write(offset, [data], sync=False)

    def write_and_sync(self, offset: int, chunks: Sequence[Buffer]) -> None:
        self._write(offset, chunks, sync=True)

    def sync(self) -> None:
        self._write(0, (), sync=True)

    def zero_fill(self, offset: int, length: int) -> None:
        self._check_writable()
        self._settle(zero_all(self._write_once, offset, length))

    def truncate(self, size: int) -> None:
        self._check_writable()
        self._disk.begin("truncate", self._path)
        if size < 0:
            raise simulated_error(errno.EINVAL, "truncate", self._path)
        self._node.truncate(size)

    def empty(self) -> None:
        """Truncates the file to 0 bytes, atomically and durably, like a journaling file system.

        In contrast, after `truncate` a power loss may bring back some of the sectors.
        """
        self.truncate(0)
        self._node.sync()

    def reopened(self) -> SimulatedFile:
        """Returns a new handle of the same file in place of this one. The new handle accepts writes
        even if a sync of this one failed.
        """
        self._check("open")
        self._disk.open_paths[self._path] -= 1  # it replaces this handle
        return SimulatedFile(self._disk, self._node, self._path, writable=self._writable)

    def declare_sealed(self) -> None:
        self._check("declare sealed")
        self._node.sealed = True

    def close(self) -> None:
        if not self._closed and self._life == self._disk.life:
            self._closed = True
            self._disk.open_paths[self._path] -= 1
            # After a crash, handles are closed by threads that unwind, or by the garbage collector.
            if not self._disk.is_down:
                self._disk.look("close", self._path)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _write(self, offset: int, chunks: Sequence[Buffer], *, sync: bool) -> None:
        self._check_writable(is_changed=self._is_change(offset, chunks))
        sync_once = self._sync_once if sync else None
        self._settle(write_all(self._write_once, offset, chunks, sync_once=sync_once))

    def _settle(self, outcome: WriteOutcome) -> None:
        if outcome.sync_errno:
            self._failure = f"an earlier sync failed: {os.strerror(outcome.sync_errno)}"
            raise simulated_error(outcome.sync_errno, "fdatasync", self._path)
        if outcome.write_errno:
            raise simulated_error(outcome.write_errno, "write", self._path)

    def _write_once(self, offset: int, data: memoryview) -> int:
        """Simulates one write(2) and returns the number of bytes written, which may be fewer than
        `data` has. If a crash or an error other than EROFS is due, writes a random part first.
        """
        disk = self._disk
        part = data[: disk.random.randrange(len(data) + 1)]
        disk.step("pwrite", self._path, before_crash=lambda: self._node.write(offset, part))
        fault = disk.faults.due("pwrite")
        if fault is not None:
            if fault.code != errno.EROFS:
                self._node.write(offset, part)
            raise OSError(fault.code, os.strerror(fault.code))
        room = self._room(offset, len(data))
        if not room:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        if disk.faults.short_writes:
            room = disk.random.randrange(1, room + 1)
        self._node.write(offset, data[:room])
        self._node.blocks.update(_blocks(offset, room))
        return room

    def _sync_once(self) -> None:
        self._disk.step("fdatasync", self._path)
        fault = self._disk.faults.due("fdatasync")
        if fault is None:
            self._node.sync()
            return
        keep = keep_any(self._disk.random)
        self._node.fail_sync(keep, revert=fault.after is AfterFailedSync.REVERTED)
        raise OSError(fault.code, os.strerror(fault.code))

    def _room(self, offset: int, length: int) -> int:
        """Returns how many of `length` bytes at `offset` fit on the disk. Only blocks that the file
        does not have yet use space.
        """
        if self._disk.capacity_bytes >= UNBOUNDED_BYTES:
            return length
        free = self._disk.capacity_bytes - self._disk.used_bytes()
        for block in _blocks(offset, length):
            if block not in self._node.blocks:
                free -= BLOCK_BYTES
                if free < 0:
                    return max(0, block * BLOCK_BYTES - offset)
        return length

    def _check(self, operation: str) -> None:
        if self._life != self._disk.life:
            raise SimulatedCrash(f"{operation} on a file that was opened before the crash")
        if self._closed:
            raise Closed(f"{self._path}: the file is closed")

    def _is_change(self, offset: int, chunks: Sequence[Buffer]) -> bool:
        data = b"".join(map(bytes, chunks)) if self._node.sealed else b""
        return bytes(self._node.cached[offset : offset + len(data)]) != data

    def _check_writable(self, *, is_changed: bool = True) -> None:
        self._check("write")
        if self._failure is not None:
            raise Poisoned("write", self._path, why=self._failure)
        if not self._writable:
            raise simulated_error(errno.EBADF, "write", self._path)
        if self._node.sealed and is_changed:
            raise SealedFileChanged(f"{self._path}: changed after it was declared sealed")


def _blocks(offset: int, length: int) -> range:
    return range(offset // BLOCK_BYTES, -(-(offset + length) // BLOCK_BYTES))


def simulated_error(code: int, operation: str, path: PathLike) -> LakebedError:
    return from_os_error(OSError(code, os.strerror(code)), operation=operation, path=path)
