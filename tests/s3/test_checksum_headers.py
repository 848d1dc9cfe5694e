"""Checksums as headers carry them."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebed.s3.checksums import (
    announced,
    checksum_headers,
    chosen_algorithm,
    chosen_kind,
    content_md5,
    whole_checksum,
)
from lakebed.s3.errors import S3Error
from lakebed.seglake.digests import BodyDigests
from lakebed.seglake.model import Algorithm, Checksum

DATA = b"some data"
VALUES = {
    checksum.algorithm: checksum.value
    for checksum in BodyDigests.of(DATA, list(Algorithm)).checksums()
}
CRC32, SHA1 = VALUES[Algorithm.CRC32], VALUES[Algorithm.SHA1]


@pytest.mark.parametrize("algorithm", Algorithm)
def test_a_checksum_is_given_in_a_header_or_announced_for_behind_the_body(
    algorithm: Algorithm,
) -> None:
    name = f"x-amz-checksum-{algorithm.value.lower()}"
    said = announced({name: VALUES[algorithm]}, has_trailer=False)
    assert said.expected.checksums == (Checksum(algorithm, VALUES[algorithm]),)
    assert (said.algorithm, said.trailer) == (algorithm, None)
    said = announced({"x-amz-trailer": name.title()}, has_trailer=True)
    assert said.expected.checksums == ()
    assert (said.algorithm, said.trailer) == (algorithm, algorithm)


def test_nothing_said_is_nothing_expected() -> None:
    said = announced({"x-amz-checksum-mode": "ENABLED"}, has_trailer=True)
    assert said == announced({}, has_trailer=False)
    assert said.algorithm is None
    assert said.expected == (None, ())


REFUSED: list[Mapping[str, str]] = [
    {"x-amz-checksum-crc32": CRC32, "x-amz-checksum-sha1": SHA1},
    {"x-amz-checksum-crc32": CRC32, "x-amz-trailer": "x-amz-checksum-crc32"},
    {"x-amz-checksum-crc32": CRC32 + "A"},
    {"x-amz-checksum-crc32": "AAAA"},
    {"x-amz-checksum-crc32": "äöü"},
    {"x-amz-checksum-crc32": ""},
    {"x-amz-checksum-crc32": f"{CRC32}-1"},
    {"x-amz-checksum-crc32": SHA1},
    {"x-amz-checksum-md5": "AAAA"},
    {"x-amz-sdk-checksum-algorithm": "CRC32"},
    {"x-amz-sdk-checksum-algorithm": "CRC32", "x-amz-checksum-sha1": SHA1},
    {"x-amz-checksum-algorithm": "CRC32", "x-amz-checksum-sha1": SHA1},
    {"x-amz-sdk-checksum-algorithm": "SHA1", "x-amz-trailer": "x-amz-checksum-crc32"},
    {"x-amz-sdk-checksum-algorithm": "MD5", "x-amz-checksum-sha1": SHA1},
    {"x-amz-trailer": "x-amz-checksum-crc32,x-amz-checksum-sha1"},
    {"x-amz-trailer": "x-amz-meta-a"},
    {"x-amz-trailer": ""},
]


@pytest.mark.parametrize("headers", REFUSED, ids=str)
def test_checksums_that_are_none_are_refused(headers: Mapping[str, str]) -> None:
    with pytest.raises(S3Error) as refused:
        announced(headers, has_trailer=True)
    assert refused.value.code == "InvalidRequest"


def test_a_trailer_is_not_taken_where_none_can_follow() -> None:
    with pytest.raises(S3Error) as refused:
        announced({"x-amz-trailer": "x-amz-checksum-crc32"}, has_trailer=False)
    assert refused.value.code == "InvalidRequest"


def test_an_algorithm_alone_is_what_is_computed() -> None:
    said = announced({"x-amz-checksum-algorithm": "sha256"}, has_trailer=False)
    assert said.algorithm is Algorithm.SHA256
    assert said.expected.checksums == ()


@pytest.mark.parametrize("value", ["", "AAAA", "not base64", "AAAAAAAAAAAAAAAAAAAAAA", "ä"])
def test_an_md5_that_is_none_is_refused(value: str) -> None:
    with pytest.raises(S3Error) as refused:
        content_md5({"content-md5": value})
    assert refused.value.code == "InvalidDigest"


def test_an_md5_may_be_required() -> None:
    assert content_md5({}) is None
    assert content_md5({"content-md5": "A" * 22 + "=="}, is_needed=True) == bytes(16)
    with pytest.raises(S3Error) as refused:
        content_md5({}, is_needed=True)
    assert refused.value.code == "InvalidRequest"


@pytest.mark.parametrize(
    ("algorithm", "kind", "expected"),
    [
        ("CRC32", None, None),
        ("CRC32", "FULL_OBJECT", False),
        ("CRC32C", "COMPOSITE", True),
        ("SHA1", "COMPOSITE", True),
        ("CRC64NVME", "FULL_OBJECT", False),
        (None, None, None),
    ],
)
def test_the_kind_of_an_upload_is_chosen(
    algorithm: str | None, kind: str | None, *, expected: bool | None
) -> None:
    given = {"x-amz-checksum-algorithm": algorithm, "x-amz-checksum-type": kind}
    headers = {name: value for name, value in given.items() if value is not None}
    assert chosen_kind(headers, chosen_algorithm(headers)) is expected


@pytest.mark.parametrize(
    ("algorithm", "kind"),
    [
        ("SHA1", "FULL_OBJECT"),
        ("SHA256", "FULL_OBJECT"),
        ("CRC64NVME", "COMPOSITE"),
        ("CRC32", "composite"),
        (None, "COMPOSITE"),
    ],
)
def test_a_kind_that_cannot_be_is_refused(algorithm: str | None, kind: str) -> None:
    chosen = None if algorithm is None else Algorithm(algorithm)
    with pytest.raises(S3Error) as refused:
        chosen_kind({"x-amz-checksum-type": kind}, chosen)
    assert refused.value.code == "InvalidRequest"


def test_the_checksum_of_a_whole_is_of_either_kind() -> None:
    name = "x-amz-checksum-crc32"
    assert whole_checksum({}) is None
    assert whole_checksum({name: CRC32}) == Checksum(Algorithm.CRC32, CRC32)
    composite = Checksum(Algorithm.CRC32, f"{CRC32}-3", is_composite=True)
    assert whole_checksum({name: f"{CRC32}-3"}) == composite
    assert whole_checksum({name: f"{CRC32}-3", "x-amz-checksum-type": "COMPOSITE"}) == composite


@pytest.mark.parametrize(
    ("value", "kind"),
    [(f"{CRC32}-3", "FULL_OBJECT"), (CRC32, "COMPOSITE"), (f"{CRC32}-x", None), ("-3", None)],
)
def test_a_checksum_of_a_whole_that_is_none_is_refused(value: str, kind: str | None) -> None:
    headers = {"x-amz-checksum-crc32": value}
    if kind is not None:
        headers["x-amz-checksum-type"] = kind
    with pytest.raises(S3Error) as refused:
        whole_checksum(headers)
    assert refused.value.code == "InvalidRequest"


def test_checksums_are_told_with_their_kind() -> None:
    assert checksum_headers(()) == []
    full = Checksum(Algorithm.CRC32, CRC32)
    assert checksum_headers([full]) == [
        ("x-amz-checksum-crc32", CRC32),
        ("x-amz-checksum-type", "FULL_OBJECT"),
    ]
    composite = Checksum(Algorithm.SHA1, f"{SHA1}-2", is_composite=True)
    assert ("x-amz-checksum-type", "COMPOSITE") in checksum_headers([composite])
    assert checksum_headers([full], has_type=False) == [("x-amz-checksum-crc32", CRC32)]


NAMES = st.sampled_from(
    [
        "content-md5",
        "x-amz-trailer",
        "x-amz-checksum-type",
        "x-amz-checksum-algorithm",
        "x-amz-sdk-checksum-algorithm",
        "x-amz-checksum-crc32",
        "x-amz-checksum-",
    ]
)
HOSTILE = st.text(st.characters(max_codepoint=0xFF), max_size=30)


@given(st.dictionaries(NAMES, HOSTILE | st.sampled_from([CRC32, "CRC32"]), max_size=4))
def test_hostile_headers_are_refused_by_name(headers: dict[str, str]) -> None:
    for read in (
        lambda: announced(headers, has_trailer=True),
        lambda: whole_checksum(headers),
        lambda: chosen_kind(headers, chosen_algorithm(headers)),
    ):
        try:
            read()
        except S3Error as error:
            assert error.code in {"InvalidRequest", "InvalidDigest"}
