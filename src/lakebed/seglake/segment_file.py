"""The bytes of a segment file: its header, its records, and the block that seals it.

    header = segment_header()
    record = record_header(blake3(data), len(data)) + data
    file.write_and_sync(end, [seal_block(entries, data_end=end).data])
    read_sealed(file).has(hash)

A sealed segment ends in a bloom filter, an index of its records and a footer whose checksum
covers all three. Each record has its own hash, which `walk` (in `segment_walk`) checks.

`read_sealed` raises one of three errors. `Torn`: the file does not end in a footer, because it was
truncated or never sealed. `Corrupt`: the footer, the bytes it covers or the header are damaged.
`UnknownVersion`: the footer has another version, and either its checksum matches or its offsets do
not fit this version. So a flipped bit in the version field counts as damage.

Every offset is checked against the file's size before it is used.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from lakebed.base.errors import Corrupt, DataError, Torn, UnknownVersion
from lakebed.base.files import File
from lakebed.kernels.checksum import blake3
from lakebed.seglake.bloom import bloom_shape, build_bloom, may_contain
from lakebed.seglake.format import (
    CHUNK_HEADER,
    ENTRIES_MAX,
    FOOTER_MAGIC,
    HASH_BYTES,
    INDEX_COUNT,
    INDEX_ENTRY,
    NO_CHECKSUM,
    SEGMENT_FOOTER,
    SEGMENT_HEADER,
    SEGMENT_MAGIC,
    SEGMENT_VERSION,
    ChunkHeader,
    IndexCount,
    IndexEntry,
    SegmentFooter,
    SegmentHeader,
)
from lakebed.seglake.model import CHUNK_BYTES
from lakebed.seglake.segment_walk import Damage, Walk, walk

__all__ = [
    "FOOTER_BYTES",
    "HEADER_BYTES",
    "RECORD_HEADER_BYTES",
    "Damage",
    "IndexEntry",
    "SealBlock",
    "SealedSegment",
    "Walk",
    "is_sealed",
    "read_sealed",
    "record_header",
    "seal_block",
    "segment_header",
    "walk",
]

HEADER_BYTES = SEGMENT_HEADER.size
RECORD_HEADER_BYTES = CHUNK_HEADER.size
FOOTER_BYTES = SEGMENT_FOOTER.size
_SEALING_BYTES_MIN = bloom_shape(0).size + INDEX_COUNT.size + FOOTER_BYTES


class SealBlock(NamedTuple):
    """The bytes that are appended to a segment to seal it."""

    data: bytes
    checksum: bytes  # the checksum in the footer


class SealedSegment:
    """The verified end of a sealed segment: bloom filter, index and footer."""

    __slots__ = ("_bloom", "_index", "checksum", "data_end")

    def __init__(self, *, bloom: bytes, index: bytes, data_end: int, checksum: bytes) -> None:
        self._bloom = bloom
        self._index = index  # the entries, without their count
        self.data_end = data_end  # where the records end
        self.checksum = checksum  # the checksum in the footer

    def __len__(self) -> int:
        """The number of records."""
        return len(self._index) // INDEX_ENTRY.size

    @property
    def entries(self) -> list[IndexEntry]:
        """The index entries in file order, decoded again on each access."""
        return list(INDEX_ENTRY.iter_unpack(self._index))

    def has(self, hash_: bytes) -> bool:
        assert len(hash_) == HASH_BYTES, "not a hash"
        if not may_contain(self._bloom, hash_, count=len(self)):
            return False
        position = self._index.find(hash_)
        while position >= 0:
            if position % INDEX_ENTRY.size == INDEX_ENTRY.offset_of("hash"):
                return True
            position = self._index.find(hash_, position + 1)
        return False


def segment_header() -> bytes:
    """Returns the header that every segment starts with."""
    return SEGMENT_HEADER.pack(SegmentHeader(SEGMENT_MAGIC, SEGMENT_VERSION))


def record_header(hash_: bytes, length: int) -> bytes:
    """Returns the header that precedes the data of a record."""
    assert len(hash_) == HASH_BYTES, "not a hash"
    assert 0 < length <= CHUNK_BYTES, "not a chunk"
    return CHUNK_HEADER.pack(ChunkHeader(hash_, length))


def seal_block(entries: Sequence[IndexEntry], *, data_end: int) -> SealBlock:
    """Returns the bloom filter, index and footer that seal a segment.

    `entries` are the index entries of the segment's records in file order. `data_end` is the offset
    where the records end and the returned bytes must be written.
    """
    assert len(entries) <= ENTRIES_MAX, "an index has 32 bits for its length"
    bloom = build_bloom((entry.hash for entry in entries), count=len(entries))
    index = b"".join([INDEX_COUNT.pack(IndexCount(len(entries))), *map(INDEX_ENTRY.pack, entries)])
    footer = SegmentFooter(
        magic=FOOTER_MAGIC,
        version=SEGMENT_VERSION,
        bloom_offset=data_end,
        index_offset=data_end + len(bloom),
        bloom_bytes=len(bloom),
        index_bytes=len(index),
        checksum=NO_CHECKSUM,
    )
    body = bloom + index
    checksum = _checksum(body, footer)
    return SealBlock(body + SEGMENT_FOOTER.pack(footer._replace(checksum=checksum)), checksum)


def is_sealed(file: File) -> bool:
    """Whether `read_sealed` accepts the file. Raises `UnknownVersion` if its version is unknown."""
    try:
        read_sealed(file)
    except (Torn, Corrupt):
        return False
    return True


def read_sealed(file: File) -> SealedSegment:
    """Reads and verifies the header, bloom filter, index and footer of a sealed segment.

    Does not read the records. Raises `Torn` if the file does not end in a footer, and otherwise
    `Corrupt` if one of these parts is damaged, or `UnknownVersion` if its version is unknown.
    """
    size = file.size()
    if size < HEADER_BYTES + _SEALING_BYTES_MIN:
        raise Torn("the segment is too short to be sealed", path=file.path, found=f"{size} bytes")
    footer_at = size - FOOTER_BYTES
    footer = SEGMENT_FOOTER.unpack(_read(file, footer_at, FOOTER_BYTES))
    _check_places(file, footer, footer_at)
    body = _read(file, footer.bloom_offset, footer_at - footer.bloom_offset)
    _check_checksum(file, footer, footer_at, body)
    index_at = footer.bloom_bytes
    count = INDEX_COUNT.unpack(body, index_at).entry_count
    if (
        footer.index_bytes != INDEX_COUNT.size + count * INDEX_ENTRY.size
        or footer.bloom_bytes != bloom_shape(count).size
    ):
        raise Corrupt("the sizes of bloom filter and index do not match the entry count",
                      path=file.path, offset=footer.index_offset,
                      found=f"{count} entries")  # fmt: skip
    index = body[index_at + INDEX_COUNT.size :]
    _check_entries(file, index, footer)
    _check_header(file)
    return SealedSegment(
        bloom=body[:index_at],
        index=index,
        data_end=footer.bloom_offset,
        checksum=footer.checksum,
    )


def _read(file: File, offset: int, length: int) -> bytes:
    data = file.pread(offset, length)
    if len(data) < length:
        raise Torn("the segment is truncated", path=file.path, offset=offset,
                   expected=f"{length} bytes", found=len(data))  # fmt: skip
    return data


def _check_places(file: File, footer: SegmentFooter, footer_at: int) -> None:
    are_adjacent = (
        footer.bloom_offset >= HEADER_BYTES
        and footer.bloom_bytes >= bloom_shape(0).size
        and footer.index_bytes >= INDEX_COUNT.size
        and footer.bloom_offset + footer.bloom_bytes == footer.index_offset
        and footer.index_offset + footer.index_bytes == footer_at
    )
    error: DataError | None = None
    if footer.magic != FOOTER_MAGIC:
        kind = Corrupt if are_adjacent else Torn
        error = kind("the segment does not end in a footer", path=file.path, offset=footer_at,
                     expected=hex(FOOTER_MAGIC), found=hex(footer.magic))  # fmt: skip
    elif not are_adjacent and footer.version != SEGMENT_VERSION:
        error = _unknown_version(file, footer_at, footer.version)
    elif not are_adjacent:
        error = Corrupt("bloom filter, index and footer are not adjacent", path=file.path,
                        offset=footer_at)  # fmt: skip
    if error is not None:
        raise error


def _check_checksum(file: File, footer: SegmentFooter, footer_at: int, body: bytes) -> None:
    if footer.checksum == NO_CHECKSUM:
        raise Corrupt("the segment's footer has no checksum", path=file.path, offset=footer_at)
    checksum = _checksum(body, footer)
    if checksum != footer.checksum:
        raise Corrupt("wrong checksum of bloom filter, index and footer", path=file.path,
                      offset=footer.bloom_offset, expected=checksum.hex(),
                      found=footer.checksum.hex())  # fmt: skip
    if footer.version != SEGMENT_VERSION:
        raise _unknown_version(file, footer_at, footer.version)


def _check_entries(file: File, index: bytes, footer: SegmentFooter) -> None:
    """Raises `Corrupt` unless the index entries are in file order and within the records."""
    end = HEADER_BYTES
    for number, entry in enumerate(INDEX_ENTRY.iter_unpack(index)):
        if not end + RECORD_HEADER_BYTES <= entry.offset < footer.bloom_offset:
            entry_at = footer.index_offset + INDEX_COUNT.size + number * INDEX_ENTRY.size
            raise Corrupt("a segment index entry has an impossible offset", path=file.path,
                          offset=entry_at, found=entry.offset)  # fmt: skip
        end = entry.offset + 1


def _check_header(file: File) -> None:
    """Raises `Corrupt` if the segment's header is wrong."""
    header = _read(file, 0, HEADER_BYTES)
    if header != segment_header():
        raise Corrupt("wrong segment header", path=file.path, offset=0,
                      expected=segment_header().hex(), found=header.hex())  # fmt: skip


def _checksum(body: bytes, footer: SegmentFooter) -> bytes:
    return blake3(body + SEGMENT_FOOTER.pack(footer._replace(checksum=NO_CHECKSUM)))


def _unknown_version(file: File, offset: int, version: int) -> UnknownVersion:
    return UnknownVersion("unknown segment version", path=file.path, offset=offset,
                          expected=SEGMENT_VERSION, found=version)  # fmt: skip
