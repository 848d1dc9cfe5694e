"""The sink that appends bytes to the end of one file.

Invariant: every byte below `end` is durable; what lies behind it was acknowledged to nobody and
is not served. A write that found the disk full leaves nothing behind: its remains are wiped and
the wipe is synced before its callers hear of the failure, so that a record they were refused
cannot reappear behind later ones.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from itertools import accumulate

from lakebed.base.errors import NoSpace, WriteFailed
from lakebed.base.files.protocol import File
from lakebed.base.layout import Buffer


class FileTail:
    """Commits pieces of bytes; the result of each is the offset where it starts."""

    def __init__(self, file: File, *, end: int) -> None:
        self._file = file
        self._end = end
        # Kept, not asked for: a stat between two writes makes the kernel stamp the second one
        # exactly, and its sync then takes half as long again.
        self._size = file.size()

    @property
    def end(self) -> int:
        """The durable end."""
        return self._end

    def commit(self, items: Sequence[Buffer]) -> list[int]:
        starts = list(accumulate(map(len, items), initial=self._end))
        end = starts.pop()
        try:
            self._file.write_and_sync(self._end, items)
        except NoSpace:
            self._wipe(end)
            raise
        self._end = end
        self._size = max(self._size, end)
        return starts

    def _wipe(self, end: int) -> None:
        """Undo a write in part: what it appended is cut, what it overwrote were zeros."""
        if self._file.size() > self._size:
            self._file.truncate(self._size)
        length = max(0, min(end, self._size) - self._end)
        # Zeros find the disk full where the write did, having covered all that it wrote. A file
        # system that writes elsewhere may fail earlier: so look.
        with contextlib.suppress(NoSpace):
            self._file.zero_fill(self._end, length)
        if any(self._file.pread(self._end, length)):
            raise WriteFailed("write", self._file.path, why="a refused write cannot be undone")
        self._file.sync()
