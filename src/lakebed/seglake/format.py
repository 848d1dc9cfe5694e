"""The byte formats of segments, manifests and secrets: little-endian, with BLAKE3 checksums.

<segment id>.seg := SEGMENT_HEADER record* [sealing]
record           := CHUNK_HEADER data[length]
sealing          := bloom index SEGMENT_FOOTER
index            := INDEX_COUNT INDEX_ENTRY[entry_count]

manifest := MANIFEST_HEADER text text text MANIFEST_TOTALS chunk[chunk_count] metadata MANIFEST_END
chunk    := CHUNK_START segment_id CHUNK_PLACE
text     := TEXT_LENGTH byte[length]                  bucket, key, version id
metadata := TEXT_LENGTH byte[length]                  JSON; not in versions 1 and 2

secret.key := SECRET_KEY_FILE
secret     := SEALED_SECRET ciphertext                of an access key: AES-256-GCM, its tag last
"""

from __future__ import annotations

from typing import Annotated, NamedTuple

from lakebed.base.layout import Layout, Raw, i64, u32, u64


class SegmentHeader(NamedTuple):
    """The first bytes of a segment."""

    magic: u32  # 0x53474C53, "SGLS"
    version: u32  # 1


class ChunkHeader(NamedTuple):
    """The header of a record in a segment, followed by the record's data."""

    hash: Annotated[bytes, Raw(32)]  # BLAKE3 of the data
    length: u32  # of the data, 1 to 4,194,304


class IndexCount(NamedTuple):
    """The first bytes of the index of a sealed segment, followed by its entries."""

    entry_count: u32


class IndexEntry(NamedTuple):
    """An entry of a segment's index: the position and hash of one record."""

    offset: i64  # of the data, in the segment's file
    hash: Annotated[bytes, Raw(32)]  # as in the record


class SegmentFooter(NamedTuple):
    """The last bytes of a sealed segment."""

    magic: u32  # 0x53474C4B, "SGLK"
    version: u32  # 1
    bloom_offset: i64  # where the records end
    index_offset: i64  # where the bloom filter ends
    bloom_bytes: u32
    index_bytes: u32
    checksum: Annotated[bytes, Raw(32)]  # over filter, index and footer with this field zero


class HashWords(NamedTuple):
    """The first 16 bytes of a hash, which select its bits in the bloom filter."""

    first: u64  # the first bit
    second: u64  # the distance between bits; 0 counts as 1


class ManifestHeader(NamedTuple):
    """The first bytes of a manifest."""

    magic: u32  # 0x53474C4D, "SGLM"
    version: u32  # 3


class TextLength(NamedTuple):
    """The length field before a manifest's bucket, key, version id and metadata."""

    length: u32  # bytes that follow


class ManifestTotals(NamedTuple):
    """The size of the object and the number of chunks, followed by the chunks of a manifest."""

    size: u64  # of the object
    chunk_count: u32


class ChunkStart(NamedTuple):
    """The fields of a chunk in a manifest that precede the segment id."""

    chunk_index: u32  # 0, 1, 2 …
    hash: Annotated[bytes, Raw(32)]  # BLAKE3 of the data
    segment_id_length: u32  # bytes of the segment's id, which follows


class ChunkPlace(NamedTuple):
    """The fields of a chunk in a manifest that follow the segment id."""

    offset: u64  # of the data, in the segment's file
    length: u32  # of the data, 1 to 4,194,304


class ManifestEnd(NamedTuple):
    """The last bytes of a manifest."""

    checksum: Annotated[bytes, Raw(32)]  # over everything between the header and this field


class SecretKeyFile(NamedTuple):
    """The whole file `secret.key`, whose key encrypts the secrets of access keys."""

    magic: u32  # 0x53474C58, "SGLX"
    version: u32  # 1
    key_id: Annotated[bytes, Raw(16)]  # random; repeated in each secret encrypted with the key
    key: Annotated[bytes, Raw(32)]  # random
    checksum: Annotated[bytes, Raw(32)]  # BLAKE3 over all fields before this


class SealedSecret(NamedTuple):
    """The first bytes of an access key's encrypted secret, followed by the ciphertext."""

    version: u32  # 1
    key_id: Annotated[bytes, Raw(16)]  # of the `secret.key` that decrypts it
    nonce: Annotated[bytes, Raw(12)]  # random, of AES-256-GCM


SEGMENT_HEADER = Layout(SegmentHeader, order="<", size=8)
CHUNK_HEADER = Layout(ChunkHeader, order="<", size=36)
INDEX_COUNT = Layout(IndexCount, order="<", size=4)
INDEX_ENTRY = Layout(IndexEntry, order="<", size=40)
SEGMENT_FOOTER = Layout(SegmentFooter, order="<", size=64)
HASH_WORDS = Layout(HashWords, order="<", size=16)
MANIFEST_HEADER = Layout(ManifestHeader, order="<", size=8)
TEXT_LENGTH = Layout(TextLength, order="<", size=4)
MANIFEST_TOTALS = Layout(ManifestTotals, order="<", size=12)
CHUNK_START = Layout(ChunkStart, order="<", size=40)
CHUNK_PLACE = Layout(ChunkPlace, order="<", size=12)
MANIFEST_END = Layout(ManifestEnd, order="<", size=32)
SECRET_KEY_FILE = Layout(SecretKeyFile, order="<", size=88)
SEALED_SECRET = Layout(SealedSecret, order="<", size=32)

SEGMENT_MAGIC = 0x53474C53
FOOTER_MAGIC = 0x53474C4B
SEGMENT_VERSION = 1  # in the header and the footer
MANIFEST_MAGIC = 0x53474C4D
MANIFEST_VERSION = 3  # the version written; versions 1 and 2 can still be read
SECRET_KEY_MAGIC = 0x53474C58
SECRET_VERSION = 1  # in the key file and in encrypted secrets

HASH_BYTES = 32
NO_CHECKSUM = bytes(HASH_BYTES)
OFFSET_MAX = (1 << 63) - 1
ENTRIES_MAX = ((1 << 32) - 1 - INDEX_COUNT.size) // INDEX_ENTRY.size  # of one index
TEXT_BYTES_MAX = 1024  # of bucket, key, version id and segment id
METADATA_BYTES_MAX = 1 << 24
