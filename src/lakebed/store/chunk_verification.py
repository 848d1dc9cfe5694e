"""Verifies that the chunks of a manifest log that are marked as uploaded are in Tier 2.

A flag in the header of a chunk marks it as uploaded. A chunk that is no longer on disk was uploaded
before it was removed. If it is not in Tier 2 either, that part of the manifest log's history is
lost; a replay of the manifest log does not need it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator

from lakebed.aof.inspection import Verdict
from lakebed.aof.manifest.format import FLAG_UPLOADED, ChunkHeader
from lakebed.aof.manifest.paths import parse_stream_name
from lakebed.aof.tiers.errors import Missing
from lakebed.aof.tiers.names import manifest_prefix
from lakebed.aof.tiers.object_store import ObjectStore
from lakebed.aof.tiers.transfer import crc64_text
from lakebed.base.errors import DataError, NotFound
from lakebed.store.manifest_logs import ManifestLog
from lakebed.store.verification import Problem

CHUNK_CRC64 = "chunk-crc64"  # a key of an object's metadata


class ChunkObjects:
    """Checks the Tier 2 objects that hold the chunks of one manifest log."""

    def __init__(
        self,
        manifest_log: ManifestLog,
        open_store: Callable[[], ObjectStore],
        *,
        prefix: str,
        place: str,
    ) -> None:
        """`prefix` is the start of all object keys; `place` names the object store in messages."""
        stream_id = parse_stream_name(manifest_log.stream)
        assert stream_id is not None, "the stream is the name of a folder"
        self._reader = manifest_log.reader
        self._open_store = open_store  # called only when an object is looked up
        self._prefix = manifest_prefix(prefix, stream_id)
        self._place = place

    def check(self) -> Iterator[Problem | None]:
        """Checks the object of each chunk on disk that is marked as uploaded.

        Yields a problem if the object is missing or holds another chunk, else None.
        """
        for index in self._reader.chunk_indexes():
            try:
                header = self._reader.chunk(index).header
            except (NotFound, DataError):
                continue
            if header is not None and header.flags & FLAG_UPLOADED:
                yield self._problem(index, header)

    def notes(self) -> list[str]:
        """Returns a note about chunks that are neither on disk nor in Tier 2.

        The list is empty if there are no such chunks.
        """
        first = self._reader.start().chunk_index
        if not first:
            return []
        keys = {info.key for info in self._open_store().list(self._prefix)}
        lost = [index for index in range(first) if self._key(index) not in keys]
        if not lost:
            return []
        span = str(lost[0]) if len(lost) == 1 else f"{lost[0]} to {lost[-1]}"
        return [
            f"{len(lost)} of the first {first} chunks are neither on disk nor in Tier 2: {span}"
        ]

    def _problem(self, index: int, header: ChunkHeader) -> Problem | None:
        key = self._key(index)
        try:
            metadata = self._open_store().head(key).metadata or {}
        except Missing:
            problem = f"chunk {index} is marked as uploaded, but Tier 2 does not have it"
        else:
            expected, actual = crc64_text(header.chunk_crc64), metadata.get(CHUNK_CRC64, "none")
            if expected == actual:
                return None
            problem = (
                f"the object does not hold chunk {index}: "
                f"expected checksum {expected}, found {actual}"
            )
        return Problem(f"{self._place}/{key}", None, 0, Verdict.CORRUPT, problem)

    def _key(self, index: int) -> str:
        return self._prefix + os.path.basename(self._reader.paths.chunk(index))
