"""Uploads the chunks of a manifest log to Tier 2, and removes unneeded chunks from the local disk.

Each sealed chunk is uploaded with its file name as the end of its key. The upload is recorded in
the manifest log and marked in the chunk's header. The local chunk is removed once no kept snapshot
needs it for a replay; the two newest sealed chunks always stay.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence

from lakebed.aof.manifest.chunk import InspectedChunk, Verdict, encode_header
from lakebed.aof.manifest.format import FLAG_UPLOADED, MANIFEST_ITSELF, ChunkHeader
from lakebed.aof.manifest.journal import Journal
from lakebed.aof.manifest.reader import ManifestReader
from lakebed.aof.manifest.records import UploadDone, UploadFailed, UploadStarted
from lakebed.aof.tiers.errors import Missing, Tier2Error
from lakebed.aof.tiers.object_store import ObjectStore
from lakebed.aof.tiers.ranges import BytesSource
from lakebed.aof.tiers.transfer import CRC64, crc64_text
from lakebed.base.errors import NotFound
from lakebed.base.files import Disk
from lakebed.kernels import crc64nvme

SEALED_KEPT = 2


class ChunkArchive:
    """Archives the chunks of one manifest log. Only the coordinator's upkeep task may use it."""

    def __init__(
        self, reader: ManifestReader, *, disk: Disk, store: ObjectStore, prefix: str
    ) -> None:
        """`disk` has the chunk files. `prefix` begins the keys of all chunks, and ends in "/"."""
        self._reader = reader
        self._disk = disk
        self._store = store
        self._prefix = prefix
        self._uploaded: set[int] = set()  # known to be uploaded, so that they are not read again

    def step(self, journal: Journal) -> None:
        """Uploads the sealed chunks, then removes local chunks that are no longer needed."""
        indexes = self._reader.chunk_indexes()
        sealed = [index for index in indexes if index < journal.end.chunk_index]
        for index in sealed:
            if index not in self._uploaded:
                self._upload(journal, index)
        self._retain(sealed)

    def reconcile(self, journal: Journal) -> None:
        """Uploads again each local chunk that is marked as uploaded but is not intact in Tier 2."""
        for index in self._reader.chunk_indexes():
            chunk = self._reader.chunk(index)
            if _is_complete(chunk) and _header(chunk).flags & FLAG_UPLOADED:
                self._put(journal, chunk)

    def key(self, index: int) -> str:
        return self._prefix + os.path.basename(self._reader.paths.chunk(index))

    def _upload(self, journal: Journal, index: int) -> None:
        chunk = self._reader.chunk(index)
        if not _is_complete(chunk):
            return  # a damaged chunk stays on the local disk
        if not _header(chunk).flags & FLAG_UPLOADED:
            self._put(journal, chunk)
            self._mark(chunk)
        self._uploaded.add(index)

    def _put(self, journal: Journal, chunk: InspectedChunk) -> None:
        """Uploads the chunk, with its uploaded flag cleared, unless Tier 2 has the same bytes."""
        key, header = self.key(chunk.chunk_index), _header(chunk)
        start = _encoded_header(chunk, flags=header.flags & ~FLAG_UPLOADED)
        data = start + bytes(chunk.data[len(start) : chunk.end])
        crc64 = crc64_text(crc64nvme(data))
        if not self._is_there(key, crc64):
            self._note(journal, UploadStarted(key))
            metadata = {
                CRC64: crc64,
                "chunk-crc64": crc64_text(header.chunk_crc64),
                "base-record": str(header.base_record),
                "record-count": str(len(chunk.records)),
                "snapshot-id": str(max(self._reader.snapshot_ids(), default=0)),
            }
            try:
                etag = self._store.put(key, BytesSource(data, name=key), metadata=metadata).etag
            except Tier2Error as error:
                self._note(journal, UploadFailed(key, error.reason_code))
                raise
            self._note(journal, UploadDone(key, etag))
            journal.commit()

    def _is_there(self, key: str, crc64: str) -> bool:
        try:
            return (self._store.head(key).metadata or {}).get(CRC64) == crc64
        except Missing:
            return False

    def _note(self, journal: Journal, payload: UploadStarted | UploadDone | UploadFailed) -> None:
        journal.append(payload, segment_id=MANIFEST_ITSELF, logical_offset=0)

    def _mark(self, chunk: InspectedChunk) -> None:
        """Durably sets the uploaded flag in the header of the local chunk.

        The header fits in one sector, so it is written as a whole or not at all.
        """
        marked = _encoded_header(chunk, flags=_header(chunk).flags | FLAG_UPLOADED)
        path = self._reader.paths.chunk(chunk.chunk_index)
        with self._disk.open(path, writable=True) as file:
            file.write_and_sync(0, [marked])

    def _retain(self, sealed: Sequence[int]) -> None:
        snapshots = self._reader.snapshot_ids()
        if not snapshots:
            return
        needed_from = min(
            self._reader.snapshot(number).position.chunk_index for number in snapshots
        )
        removable = [
            index
            for index in sealed[:-SEALED_KEPT]
            if index < needed_from and index in self._uploaded
        ]
        for index in removable:
            with contextlib.suppress(NotFound):
                self._disk.unlink(self._reader.paths.chunk(index))
        if removable:
            self._disk.sync_folder(self._reader.paths.folder)


def _is_complete(chunk: InspectedChunk) -> bool:
    return chunk.header is not None and chunk.is_sealed and chunk.verdict is Verdict.WHOLE


def _header(chunk: InspectedChunk) -> ChunkHeader:
    assert chunk.header is not None
    return chunk.header


def _encoded_header(chunk: InspectedChunk, *, flags: int) -> bytes:
    header = _header(chunk)
    return encode_header(
        chunk_index=chunk.chunk_index,
        base_record=header.base_record,
        end=chunk.end,
        chunk_crc64=header.chunk_crc64,
        flags=flags,
    )
