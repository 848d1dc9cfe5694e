"""Creates, extends and seals the three files of the active segment: `.log`, `.idx` and `.tidx`."""

from __future__ import annotations

import contextlib

from lakebed.base.commit import FileTail
from lakebed.base.errors import LakebedError, NotFound
from lakebed.base.files import Disk, File, replace_atomically
from lakebed.base.layout import Buffer
from lakebed.keratin.format import INDEX_ENTRY, INDEX_HEADER, RECORDS_START, TIME_ENTRY
from lakebed.keratin.index_file import encode_index, encode_time_index
from lakebed.keratin.log_file import encode_log_header
from lakebed.keratin.paths import PartitionPaths, SegmentFile
from lakebed.keratin.segment import ActiveSegment

ENTRIES_AT_ONCE = 64  # index entries per write; until then, readers search up to this many strides


class SegmentFiles:
    """The open files of the active segment. Only the partition's writer may use them."""

    def __init__(self, disk: Disk, paths: PartitionPaths, segment: ActiveSegment) -> None:
        """Opens the files. The records must be durable, and the indexes must match the log."""
        base = segment.base_offset
        self._disk = disk
        self._segment = segment
        self._paths = [paths.segment(base, file) for file in _INDEXES]
        self._written_count = len(segment.places)  # of entries, in either index
        self._files: list[File] = []
        with contextlib.ExitStack() as undo:
            log = paths.segment(base, SegmentFile.LOG)
            for path in (log, *self._paths):
                self._files.append(undo.enter_context(disk.open(path, writable=True)))
            self.tail = FileTail(self._files[0], end=segment.end)
            undo.pop_all()

    def add_to_indexes(self) -> None:
        """Writes the new index entries if there are enough of them.

        Each write slows down a commit, so entries are collected first.
        """
        if len(self._segment.places) >= self._written_count + ENTRIES_AT_ONCE:
            self.write_indexes()

    def write_indexes(self) -> None:
        """Writes the index entries that have been added since the last write.

        They are not synced, and errors are ignored, because they can be rebuilt from the log.
        """
        written, self._written_count = self._written_count, len(self._segment.places)
        places, times = self._segment.places[written:], self._segment.times[written:]
        if places:
            self._append(1, b"".join(map(INDEX_ENTRY.pack, places)), written * INDEX_ENTRY.size)
            self._append(2, b"".join(map(TIME_ENTRY.pack, times)), written * TIME_ENTRY.size)

    def seal(self) -> int:
        """Truncates the log after its last record and completes its indexes, durably.

        Returns the size of the `.idx` in bytes. Idempotent.
        """
        log = self._files[0]
        if log.size() > self.tail.end:
            log.truncate(self.tail.end)
        log.sync()
        return write_indexes(self._disk, self._paths, self._segment)

    def close(self) -> None:
        for file in self._files:
            file.close()

    def _append(self, number: int, data: Buffer, bytes_before: int) -> None:
        with contextlib.suppress(LakebedError):  # without an entry, a search only takes longer
            self._files[number].pwrite(INDEX_HEADER.size + bytes_before, data)


_INDEXES = (SegmentFile.INDEX, SegmentFile.TIME_INDEX)


def create_segment(disk: Disk, paths: PartitionPaths, segment: ActiveSegment) -> None:
    """Creates the files of a segment without records. The log is durable when this returns."""
    base = segment.base_offset
    for file in (SegmentFile.LOG, *_INDEXES):
        with contextlib.suppress(NotFound):
            disk.unlink(paths.segment(base, file))  # left by an attempt that failed half-way
    header = encode_log_header(base_offset=base, created_ms=segment.created_ms)
    with disk.create(paths.segment(base, SegmentFile.LOG)) as log:
        log.write_and_sync(0, [header])
    for file, data in zip(_INDEXES, _encoded(segment, is_sealed=False), strict=True):
        with disk.create(paths.segment(base, file)) as index:
            index.pwrite(0, data)
    disk.sync_folder(paths.segments)
    assert segment.end == RECORDS_START, "a new segment has no records"


def remove_segment(disk: Disk, paths: PartitionPaths, base_offset: int) -> None:
    """Removes the files of a segment, the log last.

    If a crash leaves files without a log, recovery removes them.
    """
    for file in reversed(SegmentFile):
        with contextlib.suppress(NotFound):
            disk.unlink(paths.segment(base_offset, file))


def rebuild_indexes(
    disk: Disk, paths: PartitionPaths, segment: ActiveSegment, *, is_sealed: bool
) -> int:
    """Replaces both index files with new ones that hold the segment's index entries.

    If `is_sealed`, the time index also gets its last entry: see `ActiveSegment.finished_times`.
    Returns the size of the `.idx` in bytes.
    """
    names = [paths.segment(segment.base_offset, file) for file in _INDEXES]
    return write_indexes(disk, names, segment, is_sealed=is_sealed)


def write_indexes(
    disk: Disk, names: list[str], segment: ActiveSegment, *, is_sealed: bool = True
) -> int:
    encoded = _encoded(segment, is_sealed=is_sealed)
    for path, data in zip(names, encoded, strict=True):
        replace_atomically(disk, path, data)
    return len(encoded[0])


def _encoded(segment: ActiveSegment, *, is_sealed: bool) -> tuple[bytes, bytes]:
    base_offset, created_ms = segment.base_offset, segment.created_ms
    times = segment.finished_times() if is_sealed else segment.times
    return (
        encode_index(segment.places, base_offset=base_offset, created_ms=created_ms),
        encode_time_index(times, base_offset=base_offset, created_ms=created_ms),
    )
