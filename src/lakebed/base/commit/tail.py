"""The sink that appends bytes to the end of one file.

Invariant: every byte below `durable_end` is durable, and no byte after it was acknowledged as
durable. If the disk is full, a partial write is undone and synced before the callers get the error,
so that a refused record cannot reappear after later ones.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from itertools import accumulate

from lakebed.base.errors import NoSpace, TooManyFiles, WriteFailed
from lakebed.base.files.protocol import File
from lakebed.base.layout import Buffer


class FileTail:
    """Appends byte strings to a file. The result of each is its offset in the file."""

    def __init__(self, file: File, *, end: int) -> None:
        self._file = file
        self._end = end
        self._durable_end = end
        # The size is kept here, because a `stat` between two writes makes the kernel update the
        # timestamps at the second one, and its sync then takes 50 % longer.
        self._size = file.size()

    @property
    def end(self) -> int:
        """The position after the last byte written, synced or not."""
        return self._end

    @property
    def durable_end(self) -> int:
        """The position after the last byte synced."""
        return self._durable_end

    def commit(self, items: Sequence[Buffer]) -> list[int]:
        """Appends the items and syncs the file. Returns the offset of each item."""
        starts = self._append(items, sync=True)
        self._durable_end = self._end
        return starts

    def write(self, items: Sequence[Buffer]) -> list[int]:
        """Appends the items and returns their offsets. The next `commit` or `sync` makes them
        durable.
        """
        return self._append(items, sync=False)

    def sync(self) -> None:
        if self._durable_end < self._end:
            self._file.sync()
            self._durable_end = self._end

    def _append(self, items: Sequence[Buffer], *, sync: bool) -> list[int]:
        starts = list(accumulate(map(len, items), initial=self._end))
        end, written = starts.pop(), False
        try:
            if sync:
                self._file.write_and_sync(self._end, items)
            else:
                for start, item in zip(starts, items, strict=True):
                    self._file.pwrite(start, item)
                    written = True
        except TooManyFiles as error:
            if written:  # a partial write that cannot be undone now
                raise WriteFailed("write", self._file.path, why=str(error)) from error
            raise
        except NoSpace:
            self._wipe(end)
            raise
        self._end = end
        self._size = max(self._size, end)
        return starts

    def _wipe(self, end: int) -> None:
        """Undoes a partial write up to `end`: cuts off the bytes that enlarged the file, and writes
        zeros over the others, because the file had zeros there.
        """
        if self._file.size() > self._size:
            self._file.truncate(self._size)
        length = max(0, min(end, self._size) - self._end)
        # If the disk is full, writing zeros fails at the same place as the write, after covering
        # what it wrote. A copy-on-write file system may fail earlier, so the result is checked.
        with contextlib.suppress(NoSpace):
            self._file.zero_fill(self._end, length)
        if any(self._file.pread(self._end, length)):
            raise WriteFailed(
                "write",
                self._file.path,
                why="there was no space, and the part that was written cannot be undone",
            )
        self._file.sync()
        self._durable_end = self._end
