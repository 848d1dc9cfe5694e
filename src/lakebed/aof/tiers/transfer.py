"""Copies files to Tier 2 and back, and verifies their checksums.

Every object that is a copy of a file has the file's checksum in its metadata (`CRC64`, 16 hex
digits). A file is verified before it is uploaded, and a download before it gets its final name.
"""

from __future__ import annotations

from collections.abc import Mapping

from lakebed.aof.tiers.errors import Cancelled
from lakebed.aof.tiers.object_store import ObjectInfo, ObjectSource, ObjectStore, PutResult
from lakebed.aof.tiers.ranges import FileSource, RangeSource, crc64_of, pieces
from lakebed.aof.tiers.warm_file import ShouldStop, WarmFacts
from lakebed.base.errors import Corrupt
from lakebed.base.files import Disk, File, build_atomically
from lakebed.base.units import MIB
from lakebed.kernels import crc64nvme

CRC64 = "crc64"
SEGMENT_CRC64 = "segment-crc64"
_DOWNLOAD_BYTES = 8 * MIB


def segment_metadata(facts: WarmFacts) -> dict[str, str]:
    """Returns the metadata for the object of a segment, from the facts about its warm file."""
    footer = facts.footer
    return {
        CRC64: crc64_text(facts.crc64),
        "segment-id": str(footer.segment_index),
        SEGMENT_CRC64: crc64_text(footer.payload_checksum),
        "record-count": str(footer.record_count),
        "base-record-count": str(footer.base_record_count),
        "durable-bytes": str(footer.durable_bytes),
        "original-bytes": str(facts.original_bytes),
        "sealed-at": str(footer.sealed_at),
        "dictionary-id": str(facts.dictionary_id),
    }


def crc64_text(crc64: int) -> str:
    return f"{crc64:016x}"


def upload_file(
    store: ObjectStore,
    key: str,
    disk: Disk,
    path: str,
    *,
    crc64: int,
    metadata: Mapping[str, str],
    should_stop: ShouldStop = lambda: False,
) -> PutResult:
    """Uploads a file. Raises `Corrupt`, and sends nothing, if its checksum is not `crc64`.

    `should_stop` is called before each read; if it returns True, `Cancelled` is raised and the file
    is not stored.
    """
    with disk.open(path) as file:
        source = StoppableSource(FileSource(file), should_stop)
        _check(crc64_text(crc64), crc64_of(source), path=path)
        return store.put(key, source, metadata={**metadata, CRC64: crc64_text(crc64)})


class StoppableSource:
    """Wraps a source; its reads raise `Cancelled` once `should_stop` returns True."""

    def __init__(self, source: RangeSource, should_stop: ShouldStop) -> None:
        self._source = source
        self._should_stop = should_stop
        self.name = source.name
        self.size = source.size

    def read_range(self, offset: int, length: int) -> bytes:
        if self._should_stop():
            raise Cancelled(f"{self.name}: the upload was stopped on request")
        return self._source.read_range(offset, length)

    def close(self) -> None:
        self._source.close()


def download_to(
    store: ObjectStore,
    key: str,
    disk: Disk,
    path: str,
    *,
    should_stop: ShouldStop = lambda: False,
) -> ObjectInfo:
    """Downloads an object to the file `path`, durably.

    If this raises, `path` is unchanged or has the complete new file. Raises `Corrupt` if the bytes
    do not match the checksum in the object's metadata, or if the metadata has no checksum; a retry
    may help, because the bytes may have been damaged in transit. `should_stop` is called before
    each write; if it returns True, `Cancelled` is raised.
    """
    info = store.head(key)
    source = ObjectSource(store, key, size=info.size)

    def build(file: File) -> None:
        position, crc = 0, 0
        for piece in pieces(source, bytes_max=_DOWNLOAD_BYTES):
            if should_stop():
                raise Cancelled(f"{key}: the download was stopped on request")
            file.pwrite(position, piece)
            crc = crc64nvme(piece, crc)
            position += len(piece)
        _check((info.metadata or {}).get(CRC64, "none"), crc, path=key)
        file.sync()

    build_atomically(disk, path, build)
    return info


def _check(expected: str, crc: int, *, path: str) -> None:
    if expected != crc64_text(crc):
        raise Corrupt(
            "the bytes do not match their recorded checksum",
            path=path,
            expected=expected,
            found=crc64_text(crc),
        )
