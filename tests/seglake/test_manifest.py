"""Manifests: what was written is read, and everything else is told apart."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebed.base.errors import Corrupt, DataError, TooLarge, Torn, UnknownVersion
from lakebed.seglake.manifest import Manifest, decode, encode
from lakebed.seglake.model import CHUNK_BYTES, Algorithm, Checksum, Chunk, Content, State
from tests.seglake.manifest_samples import (
    BARE,
    CHUNKS,
    FULL,
    MARKER,
    body,
    number,
    of_version_1,
    of_version_1_unnamed,
    of_version_2,
    of_version_3,
    signed,
    text,
)
from tests.seglake.segment_samples import flipped

pytestmark = pytest.mark.thorough

TINY = Manifest(
    bucket="bkt", key="k", version_id="a" * 32, size=3, chunks=(CHUNKS[0]._replace(length=3),)
)
SAMPLES = {
    "full": encode(FULL),
    "marker": encode(MARKER),
    "tiny": encode(TINY),
    "version 2": of_version_2(BARE),
    "version 1": of_version_1(BARE),
    "version 1 unnamed": of_version_1_unnamed(BARE),
}
HEADER_BYTES = 8

words = st.text(max_size=12)
ids = st.text("0123456789abcdef", min_size=24, max_size=32)
lengths = st.integers(1, CHUNK_BYTES)
texts = st.dictionaries(words, words, max_size=3)
chunks = st.lists(
    st.builds(Chunk, st.binary(min_size=32, max_size=32), ids, st.integers(0, 2**63 - 1), lengths),
    max_size=4,
)
contents = st.builds(
    Content,
    content_type=st.none() | words,
    cache_control=st.none() | words,
    content_disposition=st.none() | words,
    content_encoding=st.none() | words,
    content_language=st.none() | words,
    expires=st.none() | words,
    metadata=texts,
)
checksums = st.lists(st.builds(Checksum, st.sampled_from(Algorithm), words, st.booleans()))


@st.composite
def manifests(draw: st.DrawFn) -> Manifest:
    state = draw(st.sampled_from(State))
    found = [] if state is State.DELETED else draw(chunks)
    size = sum(chunk.length for chunk in found)
    return Manifest(
        bucket=draw(words),
        key=draw(words),
        version_id=draw(ids),
        size=size,
        chunks=tuple(found),
        state=state,
        etag=draw(words),
        modified_ms=draw(st.integers(0, 2**63 - 1)),
        is_null=draw(st.booleans()),
        content=draw(contents),
        checksums=tuple(draw(checksums)),
        part_sizes=draw(st.sampled_from([(), (size,), (0, size)])),
        tags=draw(texts),
        hlc=draw(words),
        site_id=draw(words),
    )


def read(data: bytes) -> Manifest:
    return decode(data, path="here")


@given(manifests())
def test_what_was_written_is_read(manifest: Manifest) -> None:
    assert read(encode(manifest)) == manifest


def test_any_buffer_is_read() -> None:
    data = encode(FULL)
    for buffer in (bytearray(data), memoryview(data), memoryview(b"x" + data)[1:]):
        assert decode(buffer, path="here") == FULL


def test_only_what_differs_from_its_default_is_written() -> None:
    assert encode(BARE) == of_version_3(BARE, b"{}")
    assert read(encode(BARE)) == BARE


def test_an_empty_object_is_not_a_delete_marker() -> None:
    empty = MARKER._replace(state=State.ACTIVE)
    assert read(encode(empty)) == empty != MARKER


def test_a_key_of_1024_bytes_and_any_characters_is_kept() -> None:
    for key in ("é" * 512, "../../etc/passwd", "//", "\x00\x01\x7f", " ", "a\nb"):
        manifest = BARE._replace(key=key)
        assert read(encode(manifest)).key == key


def test_metadata_that_is_no_valid_unicode_is_kept() -> None:
    manifest = BARE._replace(tags={"\udc80": "\ud800"})
    assert read(encode(manifest)).tags == {"\udc80": "\ud800"}


def test_an_object_of_many_chunks_is_kept() -> None:
    many = tuple(CHUNKS[0]._replace(offset=44 + 5_000_000 * place) for place in range(2000))
    manifest = BARE._replace(size=2000 * CHUNK_BYTES, chunks=many)
    assert read(encode(manifest)) == manifest


@pytest.mark.parametrize("build", [of_version_1, of_version_2])
@pytest.mark.parametrize("manifest", [BARE, TINY], ids=["bare", "tiny"])
def test_older_versions_are_read_with_defaults(
    build: Callable[[Manifest], bytes], manifest: Manifest
) -> None:
    assert read(build(manifest)) == manifest


@pytest.mark.parametrize("manifest", [BARE, TINY], ids=["bare", "tiny"])
def test_a_manifest_of_version_1_may_lack_bucket_and_key(manifest: Manifest) -> None:
    expected = manifest._replace(bucket="", key="")
    assert read(of_version_1_unnamed(manifest)) == expected


@given(st.text(min_size=1, max_size=12), chunks)
def test_both_forms_of_version_1_are_told_apart(key: str, found: list[Chunk]) -> None:
    size = sum(chunk.length for chunk in found)
    for name in (key, "k" * len(key)):
        manifest = BARE._replace(key=name, size=size, chunks=tuple(found))
        assert read(of_version_1_unnamed(manifest)) == manifest._replace(bucket="", key="")
        if "\0" not in name:
            assert read(of_version_1(manifest)) == manifest


@pytest.mark.parametrize("name", SAMPLES)
def test_every_truncation_is_torn(name: str) -> None:
    for length in range(len(SAMPLES[name])):
        with pytest.raises(Torn, match="here"):
            read(SAMPLES[name][:length])


@pytest.mark.parametrize("name", SAMPLES)
def test_every_flipped_bit_is_found(name: str) -> None:
    """One of the version may look like another version, of a length like a cut; none is read."""
    for offset in range(len(SAMPLES[name])):
        for bit in range(8):
            with pytest.raises(DataError, match="here") as caught:
                read(flipped(SAMPLES[name], offset, bit))
            is_version = 4 <= offset < HEADER_BYTES
            assert isinstance(caught.value, UnknownVersion) <= is_version


@pytest.mark.parametrize("name", ["full", "tiny", "version 2", "version 1 unnamed"])
def test_a_flipped_bit_outside_of_lengths_is_corrupt(name: str) -> None:
    """Within names, hashes, places, metadata and checksum."""
    data = SAMPLES[name]
    for marker in (b"bkt", b"photos", b"0123456789abcdef", CHUNKS[0].hash, b'"etag"', data[-32:]):
        start = data.find(marker)
        for offset in range(start, start + len(marker)) if start >= 0 else ():
            with pytest.raises(Corrupt, match="here"):
                read(flipped(data, offset, offset % 8))


def test_a_file_that_was_never_written_is_torn() -> None:
    with pytest.raises(Torn, match="here"):
        read(bytes(300))


def test_bytes_behind_the_end_are_corrupt() -> None:
    for data in SAMPLES.values():
        with pytest.raises(Corrupt):
            read(data + b"\0")


def test_something_else_is_corrupt() -> None:
    with pytest.raises(Corrupt, match="here: at byte 0: wrong magic"):
        read(b"PK\x03\x04" + SAMPLES["full"][4:])


@pytest.mark.parametrize("version", [0, 4, 2**32 - 1])
def test_a_sound_manifest_of_another_version_is_refused_as_such(version: int) -> None:
    for content in (b"", b"quite another layout", body(BARE) + text("{}")):
        with pytest.raises(UnknownVersion, match=f"here: .*found {version}"):
            read(signed(content, version=version))


def test_a_version_is_not_believed_without_its_checksum() -> None:
    data = signed(body(BARE) + text("{}"), version=4)
    with pytest.raises(Corrupt, match="wrong checksum"):
        read(data[:-1] + bytes([data[-1] ^ 1]))


@pytest.mark.parametrize("build", [of_version_1, of_version_2])
def test_a_missing_or_needless_metadata_section_is_corrupt(
    build: Callable[[Manifest], bytes],
) -> None:
    content = build(BARE)[HEADER_BYTES:-32]
    with pytest.raises(Corrupt):
        read(signed(content, version=3))
    for version in (1, 2):
        with pytest.raises(Corrupt, match="unexpected bytes at the end"):
            read(signed(content + text("{}"), version=version))


def with_chunk(**change: object) -> bytes:
    chunk = CHUNKS[0]._replace(**change)  # type: ignore[arg-type]
    manifest = BARE._replace(size=chunk.length, chunks=(chunk,))
    return of_version_3(manifest, "{}")


@pytest.mark.parametrize(
    "change",
    [
        {"length": 0},
        {"length": CHUNK_BYTES + 1},
        {"offset": 2**63},
        {"segment_id": ""},
        {"segment_id": "../../outside"},
        {"segment_id": ".."},
        {"segment_id": "a/b"},
        {"segment_id": "a\0b"},
        {"segment_id": "é"},
        {"segment_id": "a" * 65},
        {"segment_id": "a" * 1025},
    ],
    ids=str,
)
def test_a_chunk_that_can_be_nowhere_is_corrupt(change: dict[str, object]) -> None:
    assert read(with_chunk(length=1)).size == 1
    with pytest.raises(Corrupt, match="here: at byte"):
        read(with_chunk(**change))


@pytest.mark.parametrize("version_id", ["", "..", "a/b", "null ", "x" * 65])
def test_a_version_id_that_is_no_files_name_is_corrupt(version_id: str) -> None:
    with pytest.raises(Corrupt, match="invalid version id"):
        read(of_version_3(BARE._replace(version_id=version_id), "{}"))


@pytest.mark.parametrize("size", [0, 9_999_999, 10_000_001, 2**64 - 1])
def test_chunks_that_are_not_the_object_are_corrupt(size: int) -> None:
    with pytest.raises(Corrupt, match="the chunks do not add up to the object's size"):
        read(of_version_3(BARE._replace(size=size), "{}"))


@pytest.mark.parametrize("order", [(1, 0, 2), (0, 0, 1), (0, 2, 1), (1, 2, 3)])
def test_chunks_out_of_order_are_corrupt(order: tuple[int, ...]) -> None:
    content = body(BARE)
    for place, chunk in enumerate(CHUNKS):
        content = content.replace(number(place) + chunk.hash, number(order[place]) + chunk.hash)
    with pytest.raises(Corrupt, match="wrong chunk index"):
        read(signed(content + text("{}"), version=3))


@pytest.mark.parametrize("count", [4, 1 << 20, 1 << 24, (1 << 24) + 1, 2**32 - 1])
def test_a_count_beyond_the_bytes_is_corrupt(count: int) -> None:
    content = body(BARE).replace(
        number(BARE.size, 8) + number(3), number(BARE.size, 8) + number(count)
    )
    with pytest.raises(Corrupt):
        read(signed(content + text("{}"), version=3))


def test_names_that_are_no_text_are_corrupt() -> None:
    rest = body(BARE)[len(text(BARE.bucket)) :]
    for bucket in (b"\xff", b"\xed\xa0\x80", b"x" * 1025):
        with pytest.raises(Corrupt, match="here: at byte 8"):
            read(signed(text(bucket) + rest + text("{}"), version=3))


def test_unknown_fields_are_ignored() -> None:
    fields = {"etag": "e", "colour": {"deep": [1, None]}, "": 1.5}
    expected = BARE._replace(etag="e")
    assert read(of_version_3(BARE, json.dumps(fields))) == expected


@pytest.mark.parametrize(
    "fields",
    [
        {"state": "GONE"},
        {"state": None},
        {"state": ["ACTIVE"]},
        {"state": "DELETED"},
        {"etag": 1},
        {"etag": None},
        {"hlc": []},
        {"site_id": {}},
        {"modified_ms": -1},
        {"modified_ms": 2**63},
        {"modified_ms": 1.0},
        {"modified_ms": True},
        {"modified_ms": "1"},
        {"is_null": 1},
        {"is_null": None},
        {"content_type": 1},
        {"expires": None},
        {"metadata": []},
        {"metadata": {"a": 1}},
        {"metadata": None},
        {"tags": {"a": None}},
        {"tags": "a"},
        {"checksums": {}},
        {"checksums": ["CRC32"]},
        {"checksums": [{"algorithm": "CRC32"}]},
        {"checksums": [{"algorithm": "MD4", "value": "x"}]},
        {"checksums": [{"algorithm": ["CRC32"], "value": "x"}]},
        {"checksums": [{"algorithm": "CRC32", "value": "x", "is_composite": 1}]},
        {"part_sizes": [1]},
        {"part_sizes": [-1, 10_000_001]},
        {"part_sizes": ["10000000"]},
        {"part_sizes": 10_000_000},
        {"part_sizes": []},
    ],
    ids=str,
)
def test_metadata_of_a_wrong_kind_is_corrupt(fields: dict[str, object]) -> None:
    with pytest.raises(Corrupt, match="here: at byte"):
        read(of_version_3(BARE, json.dumps(fields)))


@pytest.mark.parametrize(
    "section",
    [b"", b"{", b"[]", b"1", b"null", b"{}{}", b'{"etag": "\xff"}', b"[" * 100_000,
     b'{"modified_ms": ' + b"9" * 5000 + b"}", b'{"modified_ms": NaN}'],
    ids=lambda section: repr(section[:20]),
)  # fmt: skip
def test_metadata_that_is_no_json_object_is_corrupt(section: bytes) -> None:
    with pytest.raises(Corrupt, match="here: at byte"):
        read(of_version_3(BARE, section))


def test_metadata_that_could_not_be_read_again_are_refused() -> None:
    content = Content(metadata={"a": "x" * (1 << 24)})
    with pytest.raises(TooLarge):
        encode(Manifest(bucket="b", key="k", version_id="v", size=0, chunks=(), content=content))


@given(st.binary(max_size=300), st.integers(1, 3))
def test_any_bytes_behind_a_right_checksum_are_read_or_refused(
    content: bytes, version: int
) -> None:
    """Nothing but a data error comes out, whatever a stranger wrote."""
    try:
        read(signed(content, version=version))
    except DataError as error:
        assert not isinstance(error, Torn)


@given(st.binary(max_size=300))
def test_any_bytes_are_refused_with_a_data_error(data: bytes) -> None:
    with pytest.raises(DataError):
        read(data)
