"""Manifests, and the bytes of older versions, put together without the code that reads them."""

from __future__ import annotations

from lakebed.kernels.checksum import blake3
from lakebed.seglake.manifest import Manifest
from lakebed.seglake.model import Algorithm, Checksum, Chunk, Content, State

VERSION_ID = "0123456789abcdef0123456789abcdef"
SEGMENT_ID = "018bcfe56800aabbccddeeff"
OTHER_ID = "018bcfe5680000112233445f"
CHUNKS = (
    Chunk(blake3(b"first"), SEGMENT_ID, 44, 4_194_304),
    Chunk(blake3(b"second"), SEGMENT_ID, 4_194_384, 4_194_304),
    Chunk(blake3(b"third"), OTHER_ID, (1 << 33) + 5, 1_611_392),
)
BARE = Manifest(
    bucket="photos",
    key="2025/12/zürich 🏔.jpg",
    version_id=VERSION_ID,
    size=10_000_000,
    chunks=CHUNKS,
)
FULL = Manifest(
    bucket=BARE.bucket,
    key=BARE.key,
    version_id=VERSION_ID,
    size=BARE.size,
    chunks=CHUNKS,
    state=State.CONFLICT,
    etag="9b2cf535f27731c974343645a3985328-2",
    modified_ms=1_700_000_000_123,
    is_null=True,
    content=Content(
        content_type="image/jpeg",
        cache_control="no-cache",
        content_disposition='attachment; filename="é"',
        content_encoding="gzip",
        content_language="de",
        expires="Thu, 01 Dec 2044 16:00:00 GMT",
        metadata={"camera": "Ä 1", "empty": ""},
    ),
    checksums=(
        Checksum(Algorithm.CRC64NVME, "rosUhgp5mIg="),
        Checksum(Algorithm.SHA256, "9ZQ2Qb0Yc8a5Fq0cW7PzTo0l3Zr8fYcXH1aLZt1bM2U=-2", True),
    ),
    part_sizes=(8_388_608, 1_611_392),
    tags={"kind": "city", "": "x"},
    hlc="1700000000123000000-0000000007",
    site_id="00ff00ff00ff00ff",
)
MARKER = Manifest(
    bucket="photos",
    key="gone",
    version_id="f" * 32,
    size=0,
    chunks=(),
    state=State.DELETED,
    modified_ms=1_700_000_000_456,
    hlc="1700000000456000000-0000000000",
    site_id="00ff00ff00ff00ff",
)


def number(value: int, size: int = 4) -> bytes:
    return value.to_bytes(size, "little")


def text(value: str | bytes) -> bytes:
    data = value.encode() if isinstance(value, str) else value
    return number(len(data)) + data


def chunk(index: int, value: Chunk) -> bytes:
    place = number(value.offset, 8) + number(value.length)
    return number(index) + value.hash + text(value.segment_id) + place


def body(manifest: Manifest, *, is_named: bool = True) -> bytes:
    """What all versions have between header and checksum; unnamed is the older form of 1."""
    names = text(manifest.bucket) + text(manifest.key) if is_named else b""
    totals = number(manifest.size, 8) + number(len(manifest.chunks))
    chunks = b"".join(chunk(index, value) for index, value in enumerate(manifest.chunks))
    return names + text(manifest.version_id) + totals + chunks


def signed(content: bytes, *, version: int) -> bytes:
    """With header and checksum."""
    return number(0x53474C4D) + number(version) + content + blake3(content)


def of_version_1(manifest: Manifest) -> bytes:
    return signed(body(manifest), version=1)


def of_version_1_unnamed(manifest: Manifest) -> bytes:
    return signed(body(manifest, is_named=False), version=1)


def of_version_2(manifest: Manifest) -> bytes:
    return signed(body(manifest), version=2)


def of_version_3(manifest: Manifest, metadata: str | bytes) -> bytes:
    return signed(body(manifest) + text(metadata), version=3)
