"""A disk on which opening the manifest of one partition waits until it is let go."""

from __future__ import annotations

import os
import threading

from lakebed.base.files import PathLike
from lakebed.base.files.real import RealDisk, RealFile, Writers
from lakebed.kernels import write_and_sync, zero_fill


class StuckDisk(RealDisk):
    def __init__(self, partition: int) -> None:
        super().__init__(Writers(write_and_sync=write_and_sync, zero_fill=zero_fill))
        self._name = f"/{partition}/manifest.bin"
        self.is_reached = threading.Event()
        self.go_on = threading.Event()

    def open(self, path: PathLike, *, writable: bool = False) -> RealFile:
        if os.fspath(path).endswith(self._name):
            self.is_reached.set()
            self.go_on.wait()
        return super().open(path, writable=writable)
