"""The chunks of a manifest log in Tier 2, and which of them stay on the local disk.

A sealed chunk is uploaded under the name of its file. That is recorded, about the manifest log
itself, and marked in the chunk's header. Then it may go, once it is older than every snapshot that
is kept; the two newest sealed ones stay in any case.
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
    """For one thread at a time: the coordinator's upkeep."""

    def __init__(
        self, reader: ManifestReader, *, disk: Disk, store: ObjectStore, prefix: str
    ) -> None:
        """`disk` is the one that is read; `prefix` is the manifest log's own, and ends in "/"."""
        self._reader = reader
        self._disk = disk
        self._store = store
        self._prefix = prefix
        self._uploaded: set[int] = set()  # known to be, so that they are not read again

    def step(self, journal: Journal) -> None:
        """Upload what is sealed, then remove what need not stay."""
        indexes = self._reader.chunk_indexes()
        sealed = [index for index in indexes if index < journal.end.chunk_index]
        for index in sealed:
            if index not in self._uploaded:
                self._upload(journal, index)
        self._retain(sealed)

    def reconcile(self, journal: Journal) -> None:
        """See that chunks which were uploaded, and are here still, are in Tier 2 as they should be;
        make anew those that are not."""
        for index in self._reader.chunk_indexes():
            judged = self._reader.chunk(index)
            if _is_complete(judged) and _header(judged).flags & FLAG_UPLOADED:
                self._put(journal, judged)

    def key(self, index: int) -> str:
        return self._prefix + os.path.basename(self._reader.paths.chunk(index))

    def _upload(self, journal: Journal, index: int) -> None:
        judged = self._reader.chunk(index)
        if not _is_complete(judged):
            return  # damaged: it stays where it is
        if not _header(judged).flags & FLAG_UPLOADED:
            self._put(journal, judged)
            self._mark(judged)
        self._uploaded.add(index)

    def _put(self, journal: Journal, judged: InspectedChunk) -> None:
        """Unless it is there: the same bytes, whether the chunk is marked here or not."""
        key, header = self.key(judged.chunk_index), _header(judged)
        start = _encoded_header(judged, flags=header.flags & ~FLAG_UPLOADED)
        data = start + bytes(judged.data[len(start) : judged.end])
        crc64 = crc64_text(crc64nvme(data))
        if not self._is_there(key, crc64):
            self._note(journal, UploadStarted(key))
            metadata = {
                CRC64: crc64,
                "chunk-crc64": crc64_text(header.chunk_crc64),
                "base-record": str(header.base_record),
                "record-count": str(len(judged.records)),
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

    def _mark(self, judged: InspectedChunk) -> None:
        """Set the flag in the header: a sector, which is written whole or not at all."""
        marked = _encoded_header(judged, flags=_header(judged).flags | FLAG_UPLOADED)
        path = self._reader.paths.chunk(judged.chunk_index)
        with self._disk.open(path, writable=True) as file:
            file.write_and_sync(0, [marked])

    def _retain(self, sealed: Sequence[int]) -> None:
        snapshots = self._reader.snapshot_ids()
        if not snapshots:
            return
        needed_from = min(
            self._reader.snapshot(number).position.chunk_index for number in snapshots
        )
        gone = [
            index
            for index in sealed[:-SEALED_KEPT]
            if index < needed_from and index in self._uploaded
        ]
        for index in gone:
            with contextlib.suppress(NotFound):
                self._disk.unlink(self._reader.paths.chunk(index))
        if gone:
            self._disk.sync_folder(self._reader.paths.folder)


def _is_complete(judged: InspectedChunk) -> bool:
    return judged.header is not None and judged.is_sealed and judged.verdict is Verdict.WHOLE


def _header(judged: InspectedChunk) -> ChunkHeader:
    assert judged.header is not None
    return judged.header


def _encoded_header(judged: InspectedChunk, *, flags: int) -> bytes:
    header = _header(judged)
    return encode_header(
        chunk_index=judged.chunk_index,
        base_record=header.base_record,
        end=judged.end,
        chunk_crc64=header.chunk_crc64,
        flags=flags,
    )
