"""Writes the chunks of a group commit to the segment files of a log, and syncs them.

Invariants:

- chunks are written in the order in which they were appended, so a segment is fully durable before
  the file of the next one exists;
- chunks that could not be written stay in the backlog, and the next commit writes them first: their
  records already have ids, and later records must not be written with a gap before them;
- a file named `*.seg` has its full length, and its folder entry is durable, before records are
  written to it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import takewhile

from lakebed.aof.paths import LogPaths
from lakebed.aof.segment import Chunk, Segment
from lakebed.aof.spares import Spares
from lakebed.base.commit import SpaceReserve
from lakebed.base.errors import LakebedError
from lakebed.base.files import Disk, File


class SegmentSink:
    """Writes and syncs the chunks that one log's commit barrier passes to it.

    The barrier calls it from one thread at a time.
    """

    def __init__(
        self,
        disk: Disk,
        paths: LogPaths,
        spares: Spares,
        *,
        reserve: SpaceReserve,
        on_durable: Callable[[Segment, int], None],
        on_failure: Callable[[Segment, LakebedError], None],
    ) -> None:
        self._disk = disk
        self._paths = paths
        self._spares = spares
        self._reserve = reserve
        self._on_durable = on_durable
        self._on_failure = on_failure
        self._backlog: list[Chunk] = []
        self._open: tuple[Segment, File] | None = None

    def commit(self, items: Sequence[Chunk]) -> Sequence[None]:
        self._backlog.extend(items)
        while self._backlog:
            segment = self._backlog[0].segment
            run = list(takewhile(lambda chunk: chunk.segment is segment, self._backlog))  # noqa: B023
            try:
                # Checked here, not in the barrier: refused chunks must stay in the backlog.
                self._reserve.check(sum(chunk.size for chunk in run))
                self._write(segment, run)
            except LakebedError as error:
                self._on_failure(segment, error)
                raise
            del self._backlog[: len(run)]
        return [None] * len(items)

    def close(self) -> None:
        if self._open is not None:
            self._open[1].close()
            self._open = None

    def _write(self, segment: Segment, run: Sequence[Chunk]) -> None:
        chunks = [chunk for chunk in run if chunk.size]
        if chunks:
            buffers = [buffer for chunk in chunks for buffer in chunk.buffers()]
            self._file_of(segment).write_and_sync(chunks[0].offset, buffers)
            for chunk in chunks:
                if chunk.records is not None:
                    segment.note_written(chunk.records)
            self._on_durable(segment, chunks[-1].offset + chunks[-1].size)

    def _file_of(self, segment: Segment) -> File:
        if self._open is not None:
            if self._open[0] is segment:
                return self._open[1]
            self.close()
        path = self._paths.segment(segment.name)
        if not segment.is_on_disk:
            self._activate(path)
            segment.is_on_disk = True
        file = self._disk.open(path, writable=True)
        self._open = (segment, file)
        return file

    def _activate(self, path: str) -> None:
        self._disk.rename(self._spares.take(), path)
        self._disk.sync_folder(self._paths.segments)
