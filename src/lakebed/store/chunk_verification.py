"""Verifying the chunks of a manifest log that Tier 2 has: those marked so must be there.

A chunk that was uploaded says so in its header. One that is not on disk any more was uploaded
before it went: those that Tier 2 does not list either are history that is lost, and needed by no
replay.
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

CHUNK_CRC64 = "chunk-crc64"  # of an object's metadata


class ChunkObjects:
    """The objects of one manifest log's chunks."""

    def __init__(
        self,
        found: ManifestLog,
        open_store: Callable[[], ObjectStore],
        *,
        prefix: str,
        place: str,
    ) -> None:
        """`prefix` begins all keys; `place` is how the store is told of."""
        stream_id = parse_stream_name(found.stream)
        assert stream_id is not None, "it is the name of a folder"
        self._reader = found.reader
        self._open_store = open_store  # called if there is something to ask for
        self._prefix = manifest_prefix(prefix, stream_id)
        self._place = place

    def check(self) -> Iterator[Problem | None]:
        """Each chunk on disk that is marked as uploaded, and what is wrong with its object."""
        for index in self._reader.chunk_indexes():
            try:
                header = self._reader.chunk(index).header
            except (NotFound, DataError):
                continue
            if header is not None and header.flags & FLAG_UPLOADED:
                yield self._problem(index, header)

    def notes(self) -> list[str]:
        """Chunks that are neither on disk nor in Tier 2."""
        first = self._reader.start().chunk_index
        if not first:
            return []
        keys = {info.key for info in self._open_store().list(self._prefix)}
        lost = [index for index in range(first) if self._key(index) not in keys]
        if not lost:
            return []
        span = str(lost[0]) if len(lost) == 1 else f"{lost[0]} to {lost[-1]}"
        return [f"{len(lost)} of the first {first} chunks are not in Tier 2 either: {span}"]

    def _problem(self, index: int, header: ChunkHeader) -> Problem | None:
        key = self._key(index)
        try:
            metadata = self._open_store().head(key).metadata or {}
        except Missing:
            problem = f"chunk {index} should be there, and is not"
        else:
            expected, found = crc64_text(header.chunk_crc64), metadata.get(CHUNK_CRC64, "none")
            if expected == found:
                return None
            problem = f"another chunk's object, expected checksum {expected}, found {found}"
        return Problem(f"{self._place}/{key}", None, 0, Verdict.CORRUPT, problem)

    def _key(self, index: int) -> str:
        return self._prefix + os.path.basename(self._reader.paths.chunk(index))
