"""The simulated disk with trouble at chosen files: one that is slow, some that cannot be opened."""

from __future__ import annotations

import errno

from lakebed.base.files.protocol import PathLike
from lakebed.base.simulation.disk import SimulatedDisk
from lakebed.base.simulation.open_file import SimulatedFile, simulated_error
from lakebed.base.simulation.world import World


class TroubledDisk(SimulatedDisk):
    """`held`: the next file with that in its path that is opened for writing waits for `release`.
    `refused`: files with that in their paths cannot be opened or created, and folders not synced,
    with the error `code`."""

    def __init__(self, world: World) -> None:
        super().__init__(world.random, scheduler=world.runner)
        self.held = ""
        self.refused = ""
        self.code = errno.EIO
        self.reached = world.runner.event()
        self._released = world.runner.event()

    def release(self) -> None:
        self._released.set()

    def open(self, path: PathLike, *, writable: bool = False) -> SimulatedFile:
        if writable and self.held and self.held in str(path):
            self.held = ""
            self.reached.set()
            self._released.wait()
        self._check(path, "open")
        return super().open(path, writable=writable)

    def create(self, path: PathLike, *, size: int = 0) -> SimulatedFile:
        self._check(path, "create")
        return super().create(path, size=size)

    def sync_folder(self, folder: PathLike) -> None:
        self._check(f"{folder}/", "open")
        super().sync_folder(folder)

    def _check(self, path: PathLike, operation: str) -> None:
        if self.refused and self.refused in str(path):
            raise simulated_error(self.code, operation, path)
