"""Checksums: checked against the body, kept with the object, and joined from those of parts."""

from __future__ import annotations

import base64
import hashlib
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from awscrt import checksums as awscrt_checksums

from lakebed.base.errors import InputError
from lakebed.base.units import MIB
from lakebed.seglake.digests import Expected
from lakebed.seglake.errors import BadDigest, BadPart, NoSuchKey
from lakebed.seglake.lake import Lake
from lakebed.seglake.model import Algorithm, Checksum
from lakebed.seglake.multipart import NamedPart
from tests.seglake.lakes import BUCKET, body, in_pieces, keys, open_lake, stored

pytestmark = pytest.mark.thorough

DIGESTS: Mapping[Algorithm, Callable[[bytes], bytes]] = {
    Algorithm.CRC32: lambda data: zlib.crc32(data).to_bytes(4, "big"),
    Algorithm.CRC32C: lambda data: awscrt_checksums.crc32c(data).to_bytes(4, "big"),
    Algorithm.CRC64NVME: lambda data: awscrt_checksums.crc64nvme(data).to_bytes(8, "big"),
    Algorithm.SHA1: lambda data: hashlib.sha1(data, usedforsecurity=False).digest(),
    Algorithm.SHA256: lambda data: hashlib.sha256(data).digest(),
}
ALGORITHMS = pytest.mark.parametrize("algorithm", list(Algorithm), ids=lambda one: one.value)
SIZES = pytest.mark.parametrize("size", [0, 1000, MIB + 1, 5 * MIB])
PARTS = (body(5 * MIB, 1), body(5 * MIB + 1, 2), b"rest")


def checksum_of(algorithm: Algorithm, data: bytes) -> Checksum:
    return Checksum(algorithm, base64.b64encode(DIGESTS[algorithm](data)).decode())


def composite_of(algorithm: Algorithm, parts: tuple[bytes, ...]) -> Checksum:
    digests = b"".join(DIGESTS[algorithm](part) for part in parts)
    value = base64.b64encode(DIGESTS[algorithm](digests)).decode()
    return Checksum(algorithm, f"{value}-{len(parts)}", is_composite=True)


# Of one body.


@SIZES
def test_a_crc64nvme_is_kept_if_nothing_is_said(lake: Lake, size: int) -> None:
    info = lake.objects.put(BUCKET, "key", body(size))
    assert info.checksums == (checksum_of(Algorithm.CRC64NVME, body(size)),)


@ALGORITHMS
@SIZES
def test_the_right_checksum_is_kept_and_a_wrong_one_refused(
    lake: Lake, algorithm: Algorithm, size: int
) -> None:
    data = body(size)
    right, wrong = checksum_of(algorithm, data), checksum_of(algorithm, data + b"x")
    for source in (data, in_pieces(data, 99_991, MIB)):
        with pytest.raises(BadDigest):
            lake.objects.put(BUCKET, "key", source, expected=Expected(checksums=(wrong,)))
    assert keys(lake) == []
    for source in (data, in_pieces(data, 99_991, MIB)):
        lake.objects.put(BUCKET, "key", source, expected=Expected(checksums=(right,)))
        assert lake.objects.head(BUCKET, "key").checksums == (right,)
    lake.objects.put(BUCKET, "key", data, algorithm=algorithm)
    assert lake.objects.head(BUCKET, "key").checksums == (right,)


def test_several_checksums_are_all_checked_and_kept(lake: Lake) -> None:
    given = tuple(checksum_of(algorithm, b"data") for algorithm in Algorithm)
    info = lake.objects.put(BUCKET, "key", b"data", expected=Expected(checksums=given))
    assert set(info.checksums) == set(given)
    for index, algorithm in enumerate(Algorithm):
        wrong = (*given[:index], checksum_of(algorithm, b"other"), *given[index + 1 :])
        with pytest.raises(BadDigest):
            lake.objects.put(BUCKET, "other", b"data", expected=Expected(checksums=wrong))
    with pytest.raises(NoSuchKey):
        lake.objects.head(BUCKET, "other")


def test_one_algorithm_may_be_chosen_beside_another_that_is_given(lake: Lake) -> None:
    given = checksum_of(Algorithm.SHA1, b"data")
    info = lake.objects.put(
        BUCKET, "key", b"data", algorithm=Algorithm.CRC32, expected=Expected(checksums=(given,))
    )
    assert set(info.checksums) == {given, checksum_of(Algorithm.CRC32, b"data")}


@SIZES
def test_the_right_md5_is_accepted_and_a_wrong_one_refused(lake: Lake, size: int) -> None:
    md5 = hashlib.md5(body(size), usedforsecurity=False).digest()
    for wrong in (bytes(16), md5[:15], b"", md5 + b"\0"):
        with pytest.raises(BadDigest):
            lake.objects.put(BUCKET, "key", body(size), expected=Expected(md5=wrong))
    assert keys(lake) == []
    lake.objects.put(BUCKET, "key", body(size), expected=Expected(md5=md5))
    assert stored(lake, "key") == body(size)


@ALGORITHMS
def test_what_is_no_checksum_is_refused_before_the_body_is_read(
    lake: Lake, algorithm: Algorithm
) -> None:
    class Untouched:
        def read(self, _length: int, /) -> bytes:
            pytest.fail("the body was read")

    short = base64.b64encode(b"abc").decode()
    for value in ("", "????", short, "€", "AAAAAAA", checksum_of(algorithm, b"").value + "-1"):
        expected = Expected(checksums=(Checksum(algorithm, value),))
        with pytest.raises(InputError):
            lake.objects.put(BUCKET, "key", Untouched(), expected=expected)


def test_checksums_are_there_after_reopening(tmp_path: Path) -> None:
    given = tuple(checksum_of(algorithm, b"data") for algorithm in Algorithm)
    with open_lake(tmp_path) as lake:
        lake.buckets.create(BUCKET)
        lake.objects.put(BUCKET, "key", b"data", expected=Expected(checksums=given))
    with open_lake(tmp_path) as lake:
        assert set(lake.objects.head(BUCKET, "key").checksums) == set(given)


# Of uploads.


def upload_parts(
    lake: Lake, algorithm: Algorithm | None, *, is_composite: bool | None = None
) -> tuple[str, list[NamedPart]]:
    upload = lake.uploads.create(BUCKET, "key", algorithm=algorithm, is_composite=is_composite)
    named = []
    for number, data in enumerate(PARTS, start=1):
        part = lake.uploads.put_part(BUCKET, "key", upload.upload_id, number, data)
        kept = checksum_of(algorithm or Algorithm.CRC64NVME, data)
        assert part.checksums == (kept,)
        named.append(NamedPart(number, part.etag, kept))
    return upload.upload_id, named


def kinds() -> Iterator[tuple[Algorithm | None, bool | None, Checksum]]:
    """How an upload is begun, and what becomes of it."""
    whole = b"".join(PARTS)
    yield None, None, checksum_of(Algorithm.CRC64NVME, whole)
    yield Algorithm.CRC64NVME, None, checksum_of(Algorithm.CRC64NVME, whole)
    yield Algorithm.CRC64NVME, False, checksum_of(Algorithm.CRC64NVME, whole)
    for algorithm in (Algorithm.CRC32, Algorithm.CRC32C):
        yield algorithm, False, checksum_of(algorithm, whole)
    for algorithm in Algorithm:
        if algorithm is not Algorithm.CRC64NVME:
            yield algorithm, None, composite_of(algorithm, PARTS)
            yield algorithm, True, composite_of(algorithm, PARTS)


@pytest.mark.parametrize(("algorithm", "is_composite", "expected"), list(kinds()), ids=str)
def test_the_checksum_of_an_upload_is_made_of_those_of_its_parts(
    lake: Lake, algorithm: Algorithm | None, is_composite: bool | None, expected: Checksum
) -> None:
    upload_id, named = upload_parts(lake, algorithm, is_composite=is_composite)
    wrong = checksum_of(expected.algorithm, b"other")
    with pytest.raises(BadPart):
        lake.uploads.complete(
            BUCKET, "key", upload_id, [named[0], named[1]._replace(checksum=wrong), named[2]]
        )
    with pytest.raises(BadDigest):
        lake.uploads.complete(
            BUCKET, "key", upload_id, named, checksum=replace(expected, value=wrong.value)
        )
    assert keys(lake) == []
    info = lake.uploads.complete(BUCKET, "key", upload_id, named, checksum=expected)
    assert info.checksums == (expected,)
    assert lake.objects.head(BUCKET, "key").checksums == (expected,)


@pytest.mark.parametrize(
    ("algorithm", "is_composite"),
    [(Algorithm.CRC64NVME, True), (Algorithm.SHA1, False), (Algorithm.SHA256, False)],
)
def test_a_kind_that_cannot_be_is_refused(
    lake: Lake, algorithm: Algorithm, *, is_composite: bool
) -> None:
    with pytest.raises(InputError):
        lake.uploads.create(BUCKET, "key", algorithm=algorithm, is_composite=is_composite)
    assert lake.uploads.list(BUCKET).items == []


@ALGORITHMS
def test_the_checksum_of_a_part_is_checked(lake: Lake, algorithm: Algorithm) -> None:
    upload_id = lake.uploads.create(BUCKET, "key", algorithm=algorithm).upload_id
    right, wrong = checksum_of(algorithm, b"data"), checksum_of(algorithm, b"other")
    place = (BUCKET, "key", upload_id, 1)
    with pytest.raises(BadDigest):
        lake.uploads.put_part(*place, b"data", expected=Expected(checksums=(wrong,)))
    with pytest.raises(BadDigest):
        lake.uploads.put_part(*place, b"data", expected=Expected(md5=bytes(16)))
    assert lake.uploads.parts(*place[:3]).parts == []
    part = lake.uploads.put_part(*place, b"data", expected=Expected(checksums=(right,)))
    assert part.checksums == (right,)


def test_whatever_the_parts_are_told_with_an_upload_without_a_choice_has_the_default(
    lake: Lake,
) -> None:
    upload_id = lake.uploads.create(BUCKET, "key").upload_id
    given = checksum_of(Algorithm.SHA1, PARTS[0])
    one = lake.uploads.put_part(
        BUCKET, "key", upload_id, 1, PARTS[0], expected=Expected(checksums=(given,))
    )
    assert one.checksums == (given, checksum_of(Algorithm.CRC64NVME, PARTS[0]))
    two = lake.uploads.put_part(BUCKET, "key", upload_id, 2, PARTS[1])
    named = [NamedPart(1, one.etag, given), NamedPart(2, two.etag)]
    info = lake.uploads.complete(BUCKET, "key", upload_id, named)
    assert info.checksums == (checksum_of(Algorithm.CRC64NVME, PARTS[0] + PARTS[1]),)


def test_a_part_is_not_told_with_another_checksum_than_its_upload(lake: Lake) -> None:
    upload_id = lake.uploads.create(BUCKET, "key", algorithm=Algorithm.CRC32).upload_id
    place = (BUCKET, "key", upload_id, 1)
    given = Expected(checksums=(checksum_of(Algorithm.SHA1, PARTS[0]),))
    with pytest.raises(InputError):
        lake.uploads.put_part(*place, PARTS[0], expected=given)
    with pytest.raises(InputError):
        lake.uploads.begin_part(*place, algorithm=Algorithm.CRC64NVME)
    assert lake.uploads.parts(*place[:3]).parts == []
