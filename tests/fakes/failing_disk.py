"""The real disk, but that what a test says goes wrong on it."""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence

from lakebed.base.files import PathLike
from lakebed.base.files.real import RealDisk, Writers
from lakebed.base.files.writing import WriteOutcome
from lakebed.base.layout import Buffer
from lakebed.kernels import write_and_sync, zero_fill


class FailingDisk(RealDisk):
    """`failing`: the syncs of files whose path has that in it fail, after everything was written.
    `told_free_bytes`: how much room it says there is, if not how much there is."""

    def __init__(self, *, failing: str = "", told_free_bytes: int | None = None) -> None:
        super().__init__(Writers(write_and_sync=self._write_and_sync, zero_fill=zero_fill))
        self.failing = failing
        self.told_free_bytes = told_free_bytes

    def free_bytes(self, folder: PathLike) -> int:
        free_bytes = super().free_bytes(folder)
        return free_bytes if self.told_free_bytes is None else self.told_free_bytes

    def _write_and_sync(
        self, fd: int, offset: int, chunks: Sequence[Buffer], *, sync: bool
    ) -> WriteOutcome:
        outcome = write_and_sync(fd, offset, chunks, sync=sync)
        if sync and self.failing and self.failing in os.readlink(f"/proc/self/fd/{fd}"):
            return outcome._replace(sync_errno=errno.EIO)
        return outcome
