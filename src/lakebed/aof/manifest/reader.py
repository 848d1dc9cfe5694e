"""Reads a manifest log, whether or not a writer has it open. Changes nothing.

Chunks are read whole, one at a time, and checked before any of their records is returned.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from lakebed.aof.manifest.chunk import (
    InspectedChunk,
    PlacedRecord,
    Plausible,
    Verdict,
    inspect_chunk,
)
from lakebed.aof.manifest.format import RECORDS_START
from lakebed.aof.manifest.paths import ManifestPaths
from lakebed.aof.manifest.records import Position
from lakebed.aof.manifest.snapshot import Snapshot, decode_snapshot
from lakebed.base.errors import Corrupt, NotFound, UnknownVersion
from lakebed.base.files import ReadableDisk, read_file
from lakebed.base.units import GIB, MIB

CHUNK_BYTES_MAX = 64 * MIB
SNAPSHOT_BYTES_MAX = GIB
_LOOKS_MAX = 3


class ManifestReader:
    """Reads the chunks and snapshots of one manifest log."""

    def __init__(self, disk: ReadableDisk, paths: ManifestPaths) -> None:
        self.disk = disk
        self.paths = paths

    def chunk_indexes(self) -> list[int]:
        return self.paths.chunk_indexes(self.disk)

    def snapshot_ids(self) -> list[int]:
        return self.paths.snapshot_ids(self.disk)

    def start(self) -> Position:
        """Returns the position of the first record in the oldest existing chunk."""
        indexes = self.chunk_indexes()
        return Position(indexes[0] if indexes else 0, RECORDS_START)

    def chunk(
        self,
        index: int,
        *,
        is_last: bool = True,
        plausibility: Callable[[], Plausible] | None = None,
    ) -> InspectedChunk:
        """Reads and checks the chunk with that index.

        A chunk that looks damaged is read up to three times, because a writer may just be writing
        to it. `is_last` means that it was the last chunk when the chunks were listed. For
        `plausibility`, see `inspect_chunk`. Raises `NotFound` if there is no such chunk, and
        `UnknownVersion` if a newer version wrote it.
        """
        path = self.paths.chunk(index)
        looks_left = _LOOKS_MAX
        while True:
            data = read_file(self.disk, path, size_max=CHUNK_BYTES_MAX)
            try:
                inspected = inspect_chunk(
                    memoryview(data), index, is_last=is_last, plausibility=plausibility
                )
            except UnknownVersion as error:
                raise UnknownVersion(
                    error.problem, path=path, expected=error.expected, found=error.found
                ) from None
            looks_left -= 1
            if inspected.verdict is Verdict.WHOLE or not looks_left:
                return inspected

    def records(
        self, start: Position | None = None, end: Position | None = None
    ) -> Iterator[PlacedRecord]:
        """Yields the records of `[start, end)`, oldest first.

        At a missing or damaged chunk, raises `Corrupt` after yielding the records of earlier
        chunks. From a last chunk that is not sealed, yields the records before any damage.
        """
        expected: int | None = None if start is None else start.chunk_index
        indexes = self.chunk_indexes()
        for index in indexes:
            if start is not None and index < start.chunk_index:
                continue
            if end is not None and index > end.chunk_index:
                return
            if expected is not None and index != expected:
                raise Corrupt("the chunk is missing", path=self.paths.chunk(expected))
            expected = index + 1
            try:
                inspected = self.chunk(index, is_last=index == indexes[-1])
            except NotFound:  # it was removed after it was listed
                raise Corrupt("the chunk is missing", path=self.paths.chunk(index)) from None
            if not inspected.is_usable:
                raise Corrupt(inspected.problem, path=self.paths.chunk(index), offset=inspected.end)
            for placed in inspected.records:
                if end is not None and placed.position >= end:
                    return
                if start is None or placed.position >= start:
                    yield placed

    def snapshot(self, snapshot_id: int) -> Snapshot:
        """Reads the snapshot with that id.

        Raises `NotFound` if there is none, and a `DataError` if it is damaged.
        """
        path = self.paths.snapshot(snapshot_id)
        data = read_file(self.disk, path, size_max=SNAPSHOT_BYTES_MAX)
        snapshot = decode_snapshot(data, path=path)
        if snapshot.snapshot_id != snapshot_id:
            raise Corrupt(
                "the snapshot's id differs from the file's name", path=path, expected=snapshot_id,
                found=snapshot.snapshot_id,
            )  # fmt: skip
        return snapshot
