"""Verifies that the chunks of a manifest log that were uploaded to Tier 2 are there.

A flag in the header of a chunk marks it as uploaded. The writer removes a chunk from the disk only
after it was uploaded, and only if a replay of the manifest log does not need it. If such a chunk is
not in Tier 2 either, that part of the manifest log's history is lost.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence

from lakebed.aof.inspection import Verdict
from lakebed.aof.manifest.format import FLAG_UPLOADED, ChunkHeader
from lakebed.aof.manifest.paths import parse_stream_name
from lakebed.aof.tiers.errors import Missing
from lakebed.aof.tiers.names import manifest_prefix
from lakebed.aof.tiers.object_store import ObjectStore
from lakebed.aof.tiers.transfer import crc64_text
from lakebed.base.errors import DataError, NotFound
from lakebed.store.manifest_logs import ManifestLog
from lakebed.store.number_list import number_list
from lakebed.store.verification import Problem

CHUNK_CRC64 = "chunk-crc64"  # the name of the chunk's checksum in the metadata of its object


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
        """`prefix` begins the keys of all objects; `place` names the object store in messages."""
        stream_id = parse_stream_name(manifest_log.stream)
        assert stream_id is not None, "the stream is the name of a folder"
        self._reader = manifest_log.reader
        self._open_store = open_store  # called only when Tier 2 is needed
        self._prefix = manifest_prefix(prefix, stream_id)
        self._place = place

    def check(self) -> Iterator[Problem | None]:
        """Checks the object of each chunk on disk that is marked as uploaded.

        For each, yields a problem if the object is missing or damaged, or has the checksum of
        another chunk in its metadata, else None. Skips chunks whose header cannot be read.
        """
        for index in self._reader.chunk_indexes():
            try:
                header = self._reader.chunk(index).header
            except (NotFound, DataError):
                continue
            if header is not None and header.flags & FLAG_UPLOADED:
                yield self._problem(index, header)

    def notes(self) -> list[str]:
        """Returns a note if chunks older than those on disk are not in Tier 2 either, and a note if
        their objects are damaged.

        The content of objects that are listed is not read.
        """
        first = self._reader.start().chunk_index
        if not first:
            return []
        keys = {info.key for info in self._open_store().list(self._prefix)}
        # A listing leaves out damaged objects, and may leave out new ones.
        unlisted = [index for index in range(first) if self._key(index) not in keys]
        lost, damaged = self._lost_and_damaged(unlisted)
        states = {"neither on disk nor in Tier 2": lost, "damaged in Tier 2": damaged}
        return [
            f"{len(indexes)} of the first {first} chunks are {state}: {number_list(indexes)}"
            for state, indexes in states.items()
            if indexes
        ]

    def _lost_and_damaged(self, indexes: Sequence[int]) -> tuple[list[int], list[int]]:
        """Returns which chunks have no object, and which have a damaged one."""
        lost, damaged = [], []
        for index in indexes:
            try:
                self._open_store().head(self._key(index))
            except Missing:
                lost.append(index)
            except DataError:
                damaged.append(index)
        return lost, damaged

    def _problem(self, index: int, header: ChunkHeader) -> Problem | None:
        key = self._key(index)
        try:
            metadata = self._open_store().head(key).metadata or {}
        except Missing:
            problem = f"chunk {index} is marked as uploaded, but Tier 2 does not have it"
        except DataError as error:
            problem = f"the object of chunk {index} is damaged: {error}"
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
