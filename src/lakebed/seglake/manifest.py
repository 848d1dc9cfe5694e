"""The manifest of one version of an object: the positions of its chunks, and its metadata.

    data = encode(Manifest(bucket="photos", key="k", version_id=id, size=3, chunks=(chunk,)))
    decode(data, path=path).chunks

A manifest is stored in the metadata database. Later the manifest of a version is also written to a
file of its own, which is kept so that a lost database could be rebuilt; no command does that yet.
The manifest of a delete marker has no chunks. A part of a multipart upload also has a manifest.

Version 3 is written; versions 1 and 2 can still be read. Version 2 has no metadata section, and
version 1 may also lack the bucket name and the key. Missing fields get their defaults.

Decoding raises one of three errors. `Torn`: the bytes end before the end of the manifest, or all
are zero. `UnknownVersion`: the checksum matches, but the version is unknown. `Corrupt`: all other
damage. Damage that makes a length field larger may be reported as `Torn`. Damaged bytes are never
accepted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from lakebed.base.errors import Corrupt, DataError, TooLarge, Torn, UnknownVersion
from lakebed.base.layout import Buffer
from lakebed.kernels.checksum import blake3
from lakebed.seglake.format import (
    CHUNK_PLACE,
    CHUNK_START,
    MANIFEST_END,
    MANIFEST_HEADER,
    MANIFEST_MAGIC,
    MANIFEST_TOTALS,
    MANIFEST_VERSION,
    METADATA_BYTES_MAX,
    OFFSET_MAX,
    TEXT_BYTES_MAX,
    TEXT_LENGTH,
    ManifestHeader,
)
from lakebed.seglake.manifest_metadata import (
    NO_CONTENT,
    NO_TEXTS,
    Metadata,
    decode_metadata,
    encode_metadata,
    is_name,
)
from lakebed.seglake.model import CHUNK_BYTES, Checksum, Chunk, Content, State

_HEADER = MANIFEST_HEADER.pack(ManifestHeader(MANIFEST_MAGIC, MANIFEST_VERSION))
_CHUNKS_MAX = 1 << 24  # 64 TiB


class Manifest(NamedTuple):
    """The manifest of a version, of a delete marker, or of a part of a multipart upload."""

    bucket: str
    key: str
    version_id: str
    size: int
    chunks: tuple[Chunk, ...]
    state: State = State.ACTIVE
    etag: str = ""  # without quotes
    modified_ms: int = 0
    is_null: bool = False
    content: Content = NO_CONTENT
    checksums: tuple[Checksum, ...] = ()
    part_sizes: tuple[int, ...] = ()  # empty unless the object was uploaded in parts
    tags: Mapping[str, str] = NO_TEXTS
    hlc: str = ""
    site_id: str = ""


_METADATA_FROM = Manifest._fields.index(Metadata._fields[0])
assert Manifest._fields[_METADATA_FROM:] == Metadata._fields, "a manifest ends with its metadata"


def encode(manifest: Manifest) -> bytes:
    """Encodes the manifest in version 3 of the format.

    Raises `TooLarge` if the metadata section is larger than `METADATA_BYTES_MAX`, and `InputError`
    if a header or user metadata is not text.
    """
    assert is_name(manifest.version_id), "a version id is the name of a file"
    length = TEXT_LENGTH.pack_values
    pieces = [_HEADER]
    for text in (manifest.bucket, manifest.key, manifest.version_id):
        data = text.encode()
        assert len(data) <= TEXT_BYTES_MAX, "no name is that long"
        pieces += (length(len(data)), data)
    pieces.append(MANIFEST_TOTALS.pack_values(manifest.size, len(manifest.chunks)))
    segment_id, segment_bytes = "", b""
    total = 0
    for index, chunk in enumerate(manifest.chunks):
        if chunk.segment_id != segment_id:  # usually the same as in the previous chunk
            segment_id, segment_bytes = chunk.segment_id, chunk.segment_id.encode()
            assert is_name(segment_id), "a segment's id is the name of a file"
        total += chunk.length
        pieces += (
            CHUNK_START.pack_values(index, chunk.hash, len(segment_bytes)),
            segment_bytes,
            CHUNK_PLACE.pack_values(chunk.offset, chunk.length),
        )
    assert total == manifest.size, "the chunks do not add up to the object's size"
    metadata = encode_metadata(Metadata._make(manifest[_METADATA_FROM:]))
    if len(metadata) > METADATA_BYTES_MAX:  # it could be stored but not be read again
        raise TooLarge(
            "the size of the object's metadata in bytes",
            size=len(metadata),
            limit=METADATA_BYTES_MAX,
        )
    pieces += (length(len(metadata)), metadata)
    body = b"".join(pieces)
    return body + blake3(memoryview(body)[MANIFEST_HEADER.size :])


def decode(data: Buffer, *, path: str) -> Manifest:
    """Decodes a manifest. `path` names the manifest in errors.

    Raises `Torn` if the manifest is truncated or consists of zeros, `UnknownVersion` if only its
    version is unknown, and `Corrupt` if it is damaged in another way.
    """
    if not isinstance(data, bytes | bytearray | memoryview):
        raise Corrupt("the manifest is not a BLOB", path=path, found=type(data).__name__)
    data = bytes(data)
    end = len(data) - MANIFEST_END.size
    if end < MANIFEST_HEADER.size:
        raise Torn("the manifest is truncated", path=path, found=f"{len(data)} bytes")
    magic, version = MANIFEST_HEADER.values(data, 0)
    if magic != MANIFEST_MAGIC:
        kind = Corrupt if any(data) else Torn  # all zeros: a crash lost the bytes of a new file
        raise kind("the manifest starts with the wrong magic number", path=path, offset=0,
                   expected=hex(MANIFEST_MAGIC), found=hex(magic))  # fmt: skip
    if blake3(data[MANIFEST_HEADER.size : end]) != data[end:]:
        raise _broken(data, version, path)
    if version not in _READERS:
        raise UnknownVersion("unknown manifest version", path=path, expected="1, 2 or 3",
                             found=version)  # fmt: skip
    try:
        return _READERS[version](data, end)
    except DataError as error:  # never `Torn`: the checksum shows that no byte is missing
        raise _placed(Corrupt, error, path) from None


def _broken(data: bytes, version: int, path: str) -> DataError:
    """Returns the error for a manifest whose checksum is wrong: `Torn` or `Corrupt`."""
    try:
        _READERS.get(version, _read_v3)(data, len(data) - MANIFEST_END.size)
    except Torn as error:
        return _placed(Torn, error, path)
    except Corrupt:
        pass
    return Corrupt("wrong checksum of the manifest", path=path)


def _placed(kind: type[DataError], error: DataError, path: str) -> DataError:
    return kind(error.problem, path=path, offset=error.offset, expected=error.expected,
                found=error.found)  # fmt: skip


def _read_v1(data: bytes, end: int) -> Manifest:
    """Decodes a version 1 manifest, which has the fields of version 2 or lacks bucket and key."""
    _, totals_at = _text(data, MANIFEST_HEADER.size, end)
    if totals_at + MANIFEST_TOTALS.size > end:
        raise _cut(totals_at)
    size, count = MANIFEST_TOTALS.values(data, totals_at)
    # If these bytes are in fact a key, its letters give an impossible number of chunks.
    if count > _CHUNKS_MAX or size > count * CHUNK_BYTES:
        return _read_v2(data, end)
    version_id, size, chunks, at = _version(data, MANIFEST_HEADER.size, end)
    _check_end(at, end)
    return Manifest(bucket="", key="", version_id=version_id, size=size, chunks=chunks)


def _read_v2(data: bytes, end: int) -> Manifest:
    bucket, at = _text(data, MANIFEST_HEADER.size, end)
    key, at = _text(data, at, end)
    version_id, size, chunks, at = _version(data, at, end)
    _check_end(at, end)
    return Manifest(bucket=bucket, key=key, version_id=version_id, size=size, chunks=chunks)


def _read_v3(data: bytes, end: int) -> Manifest:
    bucket, at = _text(data, MANIFEST_HEADER.size, end)
    key, at = _text(data, at, end)
    version_id, size, chunks, section_at = _version(data, at, end)
    section, at = _bytes(data, section_at, end, METADATA_BYTES_MAX)
    _check_end(at, end)
    try:
        metadata = decode_metadata(section, size=size)
    except Corrupt as error:
        raise Corrupt(error.problem, offset=section_at, found=error.found) from None
    if metadata.state is State.DELETED and chunks:
        raise Corrupt("a delete marker has chunks", offset=section_at, found=len(chunks))
    return Manifest(bucket, key, version_id, size, chunks, *metadata)


_READERS: dict[int, Callable[[bytes, int], Manifest]] = {1: _read_v1, 2: _read_v2, 3: _read_v3}


def _version(data: bytes, at: int, end: int) -> tuple[str, int, tuple[Chunk, ...], int]:
    """Returns the version id, size and chunks at offset `at`, and the offset after them."""
    version_id, totals_at = _text(data, at, end)
    if not is_name(version_id):
        raise Corrupt("invalid version id in the manifest", offset=at, found=version_id)
    at = totals_at + MANIFEST_TOTALS.size
    if at > end:
        raise _cut(totals_at)
    size, count = MANIFEST_TOTALS.values(data, totals_at)
    if count > _CHUNKS_MAX:
        raise Corrupt("the manifest has too many chunks", offset=totals_at, found=count)
    chunks, at, total = _chunks(data, at, end, count)
    if total != size:
        raise Corrupt("the chunks do not add up to the object's size", offset=totals_at,
                      expected=size, found=total)  # fmt: skip
    return version_id, size, chunks, at


def _chunks(data: bytes, at: int, end: int, count: int) -> tuple[tuple[Chunk, ...], int, int]:
    """Returns the `count` chunks at offset `at`, the offset after them, and their total length."""
    chunks = []
    total = 0
    segment_id, segment_bytes = "", b""
    for index in range(count):
        name_at = at + CHUNK_START.size
        if name_at > end:
            raise _cut(at)
        found_index, hash_, name_length = CHUNK_START.values(data, at)
        place_at = name_at + name_length
        if found_index != index or name_length > TEXT_BYTES_MAX:
            raise Corrupt("wrong chunk index in the manifest, or too long a segment id", offset=at,
                          expected=index, found=found_index)  # fmt: skip
        if place_at + CHUNK_PLACE.size > end:
            raise _cut(at)
        name = data[name_at:place_at]
        if name != segment_bytes:  # usually the same as in the previous chunk
            segment_id, segment_bytes = _segment_id(name, name_at), name
        offset, length = CHUNK_PLACE.values(data, place_at)
        if not 0 < length <= CHUNK_BYTES or not segment_id or offset > OFFSET_MAX:
            raise Corrupt(
                "impossible chunk position in the manifest",
                offset=at,
                found=f"{length} bytes at {offset}",
            )
        chunks.append(Chunk(hash_, segment_id, offset, length))
        total += length
        at = place_at + CHUNK_PLACE.size
    return tuple(chunks), at, total


def _segment_id(name: bytes, at: int) -> str:
    segment_id = name.decode("ascii", "replace")
    if not is_name(segment_id):
        raise Corrupt("invalid segment id in the manifest", offset=at, found=segment_id)
    return segment_id


def _text(data: bytes, at: int, end: int) -> tuple[str, int]:
    text, text_end = _bytes(data, at, end, TEXT_BYTES_MAX)
    try:
        return text.decode(), text_end
    except UnicodeDecodeError:
        raise Corrupt("a name in the manifest is not UTF-8", offset=at, found=text[:80]) from None


def _bytes(data: bytes, at: int, end: int, length_max: int) -> tuple[bytes, int]:
    """Returns the bytes after the length field at offset `at`, and the offset after the bytes."""
    start = at + TEXT_LENGTH.size
    if start > end:
        raise _cut(at)
    (length,) = TEXT_LENGTH.values(data, at)
    if length > length_max:
        raise Corrupt(
            "a length in the manifest exceeds its maximum",
            offset=at,
            expected=length_max,
            found=length,
        )
    if start + length > end:
        raise _cut(at)
    return data[start : start + length], start + length


def _check_end(at: int, end: int) -> None:
    if at != end:
        raise Corrupt("unexpected bytes at the end of the manifest", offset=at, found=end - at)


def _cut(at: int) -> Torn:
    return Torn("the manifest is truncated", offset=at)
