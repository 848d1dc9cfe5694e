"""The real disk, but that what a test says goes wrong on it."""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence

from lakebed.base.errors import NoSpace
from lakebed.base.files import PathLike
from lakebed.base.files.real import RealDisk, RealFile, Writers
from lakebed.base.files.writing import WriteOutcome
from lakebed.base.layout import Buffer
from lakebed.kernels import write_and_sync, zero_fill


class FailingDisk(RealDisk):
    """`failing`: the syncs of files whose path has that in it fail, after everything was written.
    `told_free_bytes`: how much room it says there is, if not how much there is. `is_full`: files
    are neither made nor written."""

    def __init__(self, *, failing: str = "", told_free_bytes: int | None = None) -> None:
        super().__init__(Writers(write_and_sync=self._write_and_sync, zero_fill=zero_fill))
        self.failing = failing
        self.told_free_bytes = told_free_bytes
        self.is_full = False

    def create(self, path: PathLike, *, size: int = 0) -> RealFile:
        if self.is_full:
            raise NoSpace(f"{os.fspath(path)}: create: {os.strerror(errno.ENOSPC)}")
        return super().create(path, size=size)

    def free_bytes(self, folder: PathLike) -> int:
        free_bytes = super().free_bytes(folder)
        return free_bytes if self.told_free_bytes is None else self.told_free_bytes

    def _write_and_sync(
        self, fd: int, offset: int, chunks: Sequence[Buffer], *, sync: bool
    ) -> WriteOutcome:
        if self.is_full and chunks:
            return WriteOutcome(0, errno.ENOSPC, 0)
        outcome = write_and_sync(fd, offset, chunks, sync=sync)
        if sync and self.failing and self.failing in os.readlink(f"/proc/self/fd/{fd}"):
            return outcome._replace(sync_errno=errno.EIO)
        return outcome
