"""Files to Tier 2 and back, verified.

Every object that is a file of ours carries its checksum as metadata (`CRC64`, 16 hex digits). What
is uploaded is checked before it is sent, what is downloaded before it gets its name.
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
    """What a segment's object says of itself."""
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
    """Store a file that must have that checksum; `Corrupt`, and nothing is sent, if it does not.

    `Cancelled` if `should_stop`, asked before each piece that is read, says so: it is stored by
    another call then, or not at all.
    """
    with disk.open(path) as file:
        source = StoppableSource(FileSource(file), should_stop)
        _check(crc64_text(crc64), crc64_of(source), path=path)
        return store.put(key, source, metadata={**metadata, CRC64: crc64_text(crc64)})


class StoppableSource:
    """Another source, until it is told to stop: `Cancelled` then."""

    def __init__(self, source: RangeSource, should_stop: ShouldStop) -> None:
        self._source = source
        self._should_stop = should_stop
        self.name = source.name
        self.size = source.size

    def read_range(self, offset: int, length: int) -> bytes:
        if self._should_stop():
            raise Cancelled(f"{self.name}: stopped on request")
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
    """Make `path` hold the object, durably; whatever it raises, `path` stays as it was.

    `Corrupt` if what arrived has another checksum than the object says, or it says none: it may
    be tried again, for damage on the way looks the same.
    """
    info = store.head(key)
    source = ObjectSource(store, key, size=info.size)

    def build(file: File) -> None:
        position, crc = 0, 0
        for piece in pieces(source, bytes_max=_DOWNLOAD_BYTES):
            if should_stop():
                raise Cancelled(f"{key}: stopped on request")
            file.pwrite(position, piece)
            crc = crc64nvme(piece, crc)
            position += len(piece)
        _check((info.metadata or {}).get(CRC64, "none"), crc, path=key)
        file.sync()

    build_atomically(disk, path, build)
    return info


def _check(expected: str, crc: int, *, path: str) -> None:
    if expected != crc64_text(crc):
        raise Corrupt("the checksum is wrong", path=path, expected=expected, found=crc64_text(crc))
