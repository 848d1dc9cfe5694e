"""The folder of the segments: new files, and their entries, which are durable only once synced.

Invariant: a file whose entry was waiting when a sync of the folder failed is never acknowledged:
a second sync could succeed without it.
"""

from __future__ import annotations

import contextlib
from random import Random

from lakebed.base.errors import AlreadyExists, NotFound, Poisoned, SyncFailed
from lakebed.base.files import Disk, File, PathLike
from lakebed.seglake.segment_id import new_segment_id, segment_path


class SegmentFolder:
    """Thread-safe. The folder itself is there already."""

    def __init__(self, path: PathLike, *, disk: Disk) -> None:
        self.path = path
        self.failure_count = 0  # of syncs
        self._disk = disk

    def create(self, *, created_ms: int, random: Random) -> tuple[str, File, Entry]:
        """A new, empty file: its id, itself, and its entry."""
        entry = Entry(self)
        while True:
            segment_id = new_segment_id(created_ms=created_ms, random=random)
            with contextlib.suppress(AlreadyExists):
                return segment_id, self._disk.create(segment_path(self.path, segment_id)), entry

    def remove(self, segment_id: str) -> None:
        """A file that nothing refers to. If a crash brings it back, it is removed again."""
        with contextlib.suppress(NotFound):
            self._disk.unlink(segment_path(self.path, segment_id))

    def sync(self) -> None:
        try:
            self._disk.sync_folder(self.path)
        except SyncFailed:
            self.failure_count += 1
            raise


class Entry:
    """A new file's name in the folder. For one thread at a time."""

    __slots__ = ("_failure_count", "_folder", "_is_durable")

    def __init__(self, folder: SegmentFolder) -> None:
        self._folder = folder
        self._failure_count = folder.failure_count
        self._is_durable = False

    def sync(self) -> None:
        """Once; costs nothing after that."""
        if self._is_durable:
            return
        if self._failure_count != self._folder.failure_count:
            raise Poisoned("fsync", self._folder.path, why="an earlier sync of the folder failed")
        self._folder.sync()
        self._is_durable = True
