"""Headers of a request that is routed, and those that stand in its URL: known, or refused."""

from __future__ import annotations

import pytest

from lakebed.s3.verbs.object_copy import CopyObject
from lakebed.s3.verbs.object_get import GetObject
from lakebed.s3.verbs.object_put import PutObject
from tests.s3.calls import refused, request, routed

pytestmark = pytest.mark.thorough

PRESIGNED = "X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Signature=ab"


@pytest.mark.parametrize(
    ("name", "value", "code"),
    [
        ("x-amz-acl", "public-read", "NotImplemented"),
        ("x-amz-grant-read", "id=1", "NotImplemented"),
        ("x-amz-server-side-encryption", "AES256", "NotImplemented"),
        ("x-amz-server-side-encryption-customer-key", "a", "NotImplemented"),
        ("x-amz-object-lock-mode", "GOVERNANCE", "NotImplemented"),
        ("x-amz-object-lock-legal-hold", "ON", "NotImplemented"),
        ("x-amz-tagging", "a=b", "NotImplemented"),
        ("x-amz-website-redirect-location", "/", "NotImplemented"),
        ("x-amz-storage-class", "GLACIER", "InvalidStorageClass"),
        ("x-amz-mfa", "1 2", "NotImplemented"),
        ("x-amz-expected-bucket-owner", "111122223333", "NotImplemented"),
        ("x-amz-write-offset-bytes", "5", "NotImplemented"),
        ("x-amz-rename-source", "/b/k", "NotImplemented"),
        ("x-amz-checksum-sha512", "a", "NotImplemented"),
        ("x-amz-if-match-size", "5", "NotImplemented"),
        ("x-amz-of-the-future", "1", "NotImplemented"),
    ],
)
def test_a_header_that_asks_for_what_would_not_happen_is_refused(
    name: str, value: str, code: str
) -> None:
    assert refused("PUT", "/b/k", headers={name: value}).code == code
    if code == "NotImplemented":
        assert ("Header", name) in refused("PUT", "/b/k", headers={name: value}).details


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("x-amz-acl", "private"),
        ("x-amz-acl", "bucket-owner-full-control"),
        ("x-amz-api-version", "2006-03-01"),
        ("x-amz-storage-class", "STANDARD"),
        ("x-amz-request-payer", "requester"),
        ("x-amz-tagging-directive", "COPY"),
        ("x-amz-meta-anything", "goes"),
        ("x-amz-object-ownership", "BucketOwnerEnforced"),
        ("x-amz-sdk-checksum-algorithm", "CRC32"),
        ("x-amzn-trace-id", "of a proxy"),
    ],
)
def test_a_header_that_asks_for_what_is_so_anyway_is_fine(name: str, value: str) -> None:
    made = request("PUT", "/b/k", headers={name: value})
    assert routed(made) == PutObject(bucket="b", key="k")


def test_a_read_takes_headers_that_nobody_knows_but_none_that_are_refused() -> None:
    made = request("GET", "/b/k", headers={"x-amz-of-the-future": "1"})
    assert routed(made) == GetObject(bucket="b", key="k")
    for name in ("x-amz-server-side-encryption-customer-key", "x-amz-expected-bucket-owner"):
        assert refused("GET", "/b/k", headers={name: "a"}).code == "NotImplemented"


def test_a_presigned_url_can_carry_headers() -> None:
    made = request("PUT", f"/b/k?{PRESIGNED}&X-Amz-Meta-A=b&x-id=PutObject")
    assert routed(made) == PutObject(bucket="b", key="k")
    assert made.headers["x-amz-meta-a"] == "b"
    made = request("PUT", f"/b/k?{PRESIGNED}&x-amz-meta-a=b", headers={"x-amz-meta-a": "c"})
    routed(made)
    assert made.headers["x-amz-meta-a"] == "c"
    made = request("PUT", f"/b/k?{PRESIGNED}&x-amz-copy-source=%2Fb%2Fother")
    assert routed(made) == CopyObject(bucket="b", key="k")


def test_a_url_signed_without_the_body_says_nothing_about_its_checksum() -> None:
    """As the SDK for JavaScript makes them."""
    named = f"{PRESIGNED}&x-amz-sdk-checksum-algorithm=CRC32&x-amz-checksum-crc32"
    made = request("PUT", f"/b/k?{named}=AAAAAA%3D%3D")
    assert routed(made) == PutObject(bucket="b", key="k")
    assert "x-amz-checksum-crc32" not in made.headers
    assert "x-amz-sdk-checksum-algorithm" not in made.headers
    made = request("PUT", f"/b/k?{named}=y%2FQ5Jg%3D%3D")
    routed(made)
    assert made.headers["x-amz-checksum-crc32"] == "y/Q5Jg=="


def test_a_header_in_a_url_is_held_to_the_same_rules() -> None:
    target = f"/b/k?{PRESIGNED}&X-Amz-Server-Side-Encryption=AES256"
    assert refused("PUT", target).code == "NotImplemented"
    assert refused("PUT", "/b/k?x-amz-meta-a=b").code == "InvalidArgument"
    broken = f"/b/k?{PRESIGNED}&x-amz-meta-a=b%0D%0Ax-evil%3A1"
    assert refused("PUT", broken).code == "InvalidArgument"
