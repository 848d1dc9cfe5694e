"""The folder of segment files: creates files and syncs their directory entries.

Invariant: if a sync of the folder fails, the files whose directory entries are not durable yet are
not written any more, and no data in them is acknowledged. A second sync could succeed although it
does not write those entries.
"""

from __future__ import annotations

import contextlib
from random import Random

from lakebed.base.errors import AlreadyExists, NotFound, Poisoned, SyncFailed
from lakebed.base.files import Disk, File, PathLike
from lakebed.seglake.segment_id import new_segment_id, segment_path


class SegmentFolder:
    """The folder of segment files, which must exist. Thread-safe."""

    def __init__(self, path: PathLike, *, disk: Disk) -> None:
        self.path = path
        self.failure_count = 0  # the number of syncs that failed
        self._disk = disk

    def create(self, *, created_ms: int, random: Random) -> tuple[str, File, Entry]:
        """Creates an empty segment file; returns its id, the file, and its directory entry."""
        entry = Entry(self)
        while True:
            segment_id = new_segment_id(created_ms=created_ms, random=random)
            with contextlib.suppress(AlreadyExists):
                return segment_id, self._disk.create(segment_path(self.path, segment_id)), entry

    def remove(self, segment_id: str) -> None:
        """Removes the file of a segment without records. Does nothing if there is no such file.

        The removal is not synced: if a crash undoes it, recovery removes the file again.
        """
        with contextlib.suppress(NotFound):
            self._disk.unlink(segment_path(self.path, segment_id))

    def sync(self) -> None:
        try:
            self._disk.sync_folder(self.path)
        except SyncFailed:
            self.failure_count += 1
            raise


class Entry:
    """The directory entry of a new segment file. Not thread-safe."""

    __slots__ = ("_failure_count", "_folder", "_is_durable")

    def __init__(self, folder: SegmentFolder) -> None:
        self._folder = folder
        self._failure_count = folder.failure_count
        self._is_durable = False

    def sync(self) -> None:
        """Makes the directory entry durable. Idempotent.

        Raises `SyncFailed` if the sync of the folder fails, and `Poisoned` if another sync of the
        folder has failed since the file was created.
        """
        if self._is_durable:
            return
        if self._failure_count != self._folder.failure_count:
            raise Poisoned("fsync", self._folder.path, why="an earlier sync of the folder failed")
        self._folder.sync()
        self._is_durable = True
