"""Reading a manifest log, beside its writer, after it, or from elsewhere. Changes nothing.

Chunks are read whole, one at a time, and judged before any record of them is given out.
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
from lakebed.base.errors import Corrupt, UnknownVersion
from lakebed.base.files import ReadableDisk, read_file
from lakebed.base.units import GIB, MIB

CHUNK_BYTES_MAX = 64 * MIB
SNAPSHOT_BYTES_MAX = GIB
_LOOKS_MAX = 3


class ManifestReader:
    """The chunks and snapshots of one folder."""

    def __init__(self, disk: ReadableDisk, paths: ManifestPaths) -> None:
        self.disk = disk
        self.paths = paths

    def chunk_indexes(self) -> list[int]:
        return self.paths.chunk_indexes(self.disk)

    def snapshot_ids(self) -> list[int]:
        return self.paths.snapshot_ids(self.disk)

    def start(self) -> Position:
        """Where the oldest chunk that is still there begins."""
        indexes = self.chunk_indexes()
        return Position(indexes[0] if indexes else 0, RECORDS_START)

    def chunk(
        self,
        index: int,
        *,
        is_last: bool = True,
        plausibility: Callable[[], Plausible] | None = None,
    ) -> InspectedChunk:
        """One chunk, judged. The writer may be at it: what looks torn is looked at again.

        `is_last`: no other was behind it when the chunks were listed.
        """
        path = self.paths.chunk(index)
        looks_left = _LOOKS_MAX
        while True:
            data = read_file(self.disk, path, size_max=CHUNK_BYTES_MAX)
            try:
                judged = inspect_chunk(
                    memoryview(data), index, is_last=is_last, plausibility=plausibility
                )
            except UnknownVersion as error:
                raise UnknownVersion(
                    error.problem, path=path, expected=error.expected, found=error.found
                ) from None
            looks_left -= 1
            if judged.verdict is Verdict.WHOLE or not looks_left:
                return judged

    def records(
        self, start: Position | None = None, end: Position | None = None
    ) -> Iterator[PlacedRecord]:
        """The records of `[start, end)`, oldest first.

        `Corrupt` where a chunk is missing or damaged; what came before it was given out.
        """
        expected: int | None = None if start is None else start.chunk_index
        indexes = self.chunk_indexes()
        for index in indexes:
            if start is not None and index < start.chunk_index:
                continue
            if end is not None and index > end.chunk_index:
                return
            if expected is not None and index != expected:
                raise Corrupt("a chunk is missing", path=self.paths.chunk(expected))
            expected = index + 1
            judged = self.chunk(index, is_last=index == indexes[-1])
            if not judged.is_usable:
                raise Corrupt(judged.problem, path=self.paths.chunk(index), offset=judged.end)
            for placed in judged.records:
                if end is not None and placed.position >= end:
                    return
                if start is None or placed.position >= start:
                    yield placed

    def snapshot(self, snapshot_id: int) -> Snapshot:
        """One snapshot; a `DataError` if it is not good."""
        path = self.paths.snapshot(snapshot_id)
        data = read_file(self.disk, path, size_max=SNAPSHOT_BYTES_MAX)
        snapshot = decode_snapshot(data, path=path)
        if snapshot.snapshot_id != snapshot_id:
            raise Corrupt(
                "another snapshot's number", path=path, expected=snapshot_id,
                found=snapshot.snapshot_id,
            )  # fmt: skip
        return snapshot
