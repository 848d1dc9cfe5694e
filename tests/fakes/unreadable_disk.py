"""The real disk with bad sectors: reads that touch one fail with EIO, of files and of folders."""

from __future__ import annotations

import errno
import os
from collections.abc import Collection

from lakebed.base.errors import DiskError
from lakebed.base.files import PathLike
from lakebed.base.files.descriptors import DESCRIPTORS
from lakebed.base.files.real import RealDisk, RealFile, Writers
from lakebed.kernels import write_and_sync, zero_fill

SECTOR_BYTES = 4096


class UnreadableDisk(RealDisk):
    """`bad` has, by the name of a file, where in it a bad sector begins; `under` is in its path.
    Folders with a name in `unlisted` cannot be listed."""

    def __init__(
        self, bad: dict[str, int], *, under: str = "", unlisted: Collection[str] = ()
    ) -> None:
        super().__init__(Writers(write_and_sync=write_and_sync, zero_fill=zero_fill))
        self._bad = bad
        self._under = under
        self._unlisted = unlisted

    def names(self, folder: PathLike) -> list[str]:
        if os.path.basename(folder) in self._unlisted:
            raise DiskError("list", folder, code=errno.EIO)
        return super().names(folder)

    def _open(self, operation: str, path: PathLike, flags: int) -> RealFile:
        file = super()._open(operation, path, flags)
        start = self._bad.get(os.path.basename(path))
        if start is None or self._under not in os.fspath(path):
            return file
        file.close()
        flags &= ~(os.O_CREAT | os.O_EXCL)
        return _BadFile(os.fspath(path), self._writers, flags, bad_start=start)


class _BadFile(RealFile):
    __slots__ = ("_bad_start",)

    def __init__(self, path: str, writers: Writers, flags: int, *, bad_start: int) -> None:
        super().__init__(DESCRIPTORS.open(path, flags), path, writers, flags=flags)
        self._bad_start = bad_start

    def pread(self, offset: int, length: int) -> bytes:
        bad_end = self._bad_start + SECTOR_BYTES
        if offset < bad_end and self._bad_start < offset + length:
            raise DiskError("read", self.path, code=errno.EIO)
        return super().pread(offset, length)
