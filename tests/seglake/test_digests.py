"""ETags and checksums, by the values that S3 and the standards give."""

from __future__ import annotations

import base64
import hashlib
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebed.base.errors import InputError
from lakebed.seglake import digests
from lakebed.seglake.digests import BodyDigests, Expected
from lakebed.seglake.errors import BadDigest
from lakebed.seglake.model import Algorithm, Checksum

CHECK = b"123456789"  # whose CRCs the catalogues list
CHECK_VALUES = {
    Algorithm.CRC32: bytes.fromhex("cbf43926"),
    Algorithm.CRC32C: bytes.fromhex("e3069283"),
    Algorithm.CRC64NVME: bytes.fromhex("ae8b14860a799888"),
    Algorithm.SHA1: hashlib.sha1(CHECK, usedforsecurity=False).digest(),
    Algorithm.SHA256: hashlib.sha256(CHECK).digest(),
}
CRCS = [Algorithm.CRC32, Algorithm.CRC32C, Algorithm.CRC64NVME]


def of(algorithm: Algorithm, data: bytes) -> Checksum:
    found = BodyDigests([algorithm])
    found.update(data)
    return found.checksums()[0]


@pytest.mark.parametrize("algorithm", Algorithm)
def test_the_check_values(algorithm: Algorithm) -> None:
    expected = base64.b64encode(CHECK_VALUES[algorithm]).decode()
    assert of(algorithm, CHECK) == Checksum(algorithm, expected)


@given(pieces=st.lists(st.binary(max_size=50), max_size=5))
def test_a_body_in_pieces_has_the_digests_of_the_whole(pieces: list[bytes]) -> None:
    body, whole = BodyDigests(Algorithm), BodyDigests(Algorithm)
    for piece in pieces:
        body.update(memoryview(piece))
    whole.update(b"".join(pieces))
    assert body.md5 == whole.md5 == hashlib.md5(b"".join(pieces), usedforsecurity=False).digest()
    assert body.checksums() == whole.checksums()


@pytest.mark.parametrize("algorithm", CRCS)
@given(parts=st.lists(st.binary(max_size=50), min_size=1, max_size=5))
def test_crcs_of_parts_combine_to_that_of_the_whole(
    algorithm: Algorithm, parts: list[bytes]
) -> None:
    each = [(of(algorithm, part), len(part)) for part in parts]
    assert digests.combined(algorithm, each) == of(algorithm, b"".join(parts))


@pytest.mark.parametrize("algorithm", [one for one in Algorithm if one not in CRCS])
def test_only_crcs_combine(algorithm: Algorithm) -> None:
    assert not digests.can_be_full(algorithm)


def test_a_composite_checksum_is_of_the_parts_digests() -> None:
    raw = zlib.crc32(b"a").to_bytes(4, "big") + zlib.crc32(b"b").to_bytes(4, "big")
    expected = base64.b64encode(zlib.crc32(raw).to_bytes(4, "big")).decode() + "-2"
    parts = [of(Algorithm.CRC32, b"a"), of(Algorithm.CRC32, b"b")]
    assert digests.composite(Algorithm.CRC32, parts) == Checksum(
        Algorithm.CRC32, expected, is_composite=True
    )


def test_the_etag_of_parts() -> None:
    md5s = [hashlib.md5(part, usedforsecurity=False) for part in (b"a", b"b")]
    whole = hashlib.md5(b"".join(one.digest() for one in md5s), usedforsecurity=False)
    etag = digests.multipart_etag([one.hexdigest() for one in md5s])
    assert etag == f"{whole.hexdigest()}-2"


def test_what_is_not_as_announced_is_refused() -> None:
    body = BodyDigests(Algorithm)
    body.update(CHECK)
    body.check(Expected(md5=hashlib.md5(CHECK, usedforsecurity=False).digest()))
    body.check(Expected(checksums=body.checksums()))
    with pytest.raises(BadDigest, match="MD5"):
        body.check(Expected(md5=bytes(16)))
    for algorithm in Algorithm:
        with pytest.raises(BadDigest, match=algorithm.value):
            body.check(Expected(checksums=(of(algorithm, b"other"),)))


@pytest.mark.parametrize("value", ["", "AAAA", "not base64", "AAAAAA==\n", "é", "AAAAAAAAAAA="])
def test_text_that_is_no_checksum(value: str) -> None:
    with pytest.raises(InputError, match="is not a CRC32 checksum in base64"):
        digests.decoded(Checksum(Algorithm.CRC32, value))
