"""Names of buckets and keys."""

from __future__ import annotations

import pytest

from lakebed.seglake.errors import BadBucketName, BadKey
from lakebed.seglake.names import check_bucket_name, check_key


@pytest.mark.parametrize(
    "name", ["abc", "a1b", "my-bucket", "my.bucket.name", "0ab", "a" * 63, "lakebed-tier2", "a--b"]
)
def test_a_good_name_of_a_bucket(name: str) -> None:
    check_bucket_name(name)


@pytest.mark.parametrize(
    "name",
    [
        "", "ab", "a" * 64, "Abc", "a_b", "-ab", "ab-", ".ab", "ab.", "a..b", "a.-b", "a-.b",
        "192.168.5.4", "xn--ab", "sthree-ab", "ab-s3alias", "ab--ol-s3", "a/b", "a b", "abc\n",
        "abc\0", "..", "äbc", "a\u0661b", "../../etc", "amzn-s3-demo-x", "ab.mrap", "ab--x-s3",
    ],
)  # fmt: skip
def test_a_bad_name_of_a_bucket(name: str) -> None:
    with pytest.raises(BadBucketName):
        check_bucket_name(name)


@pytest.mark.parametrize(
    "key", ["k", "/", "//", "..", "../../etc/passwd", "a\0b", "\x01\x1f\x7f", "é" * 512, "k" * 1024]
)
def test_a_key_may_be_any_text(key: str) -> None:
    check_key(key)


@pytest.mark.parametrize("key", ["", "k" * 1025, "é" * 513, "\ud800", "a\udfffb"])
def test_a_key_that_none_can_be(key: str) -> None:
    with pytest.raises(BadKey):
        check_key(key)
