"""Object names that break careless code: in paths, in query strings, in XML, in file systems."""

from __future__ import annotations

from collections.abc import Iterable

from tests.clients.nodes import S3Client

HOSTILE = {
    "escaped slash": "a%2Fb",
    "escaped twice": "a%252Fb",
    "bad escape": "100%zz",
    "plus": "a+b",
    "spaces": " a  b ",
    "query": "a?b=c&d=e;f",
    "fragment": "a#b",
    "two slashes": "a//b",
    "leading slash": "/a",
    "trailing slash": "a/",
    "dots inside": "a/../b",
    "dots first": "../a",
    "dot": "a/./b",
    "composed": "caf\u00e9",
    "decomposed": "cafe\u0301",
    "emoji": "\U0001faa3/\U0001f30a",
    "far planes": "\U0002f804 \uffee\u2028",
    "XML": "&amp;<a href=\"b\" c='d'>]]>",
    "backslash": "a\\b",
    "glob": "*a?[b]{c}~",
    "line ends": "a\nb\rc\td",
    "controls": "a\x01b\x1fc\x7fd",
    "longest": "l" * 1024,
    "longest of many bytes": "\u20ac" * 341 + "l",
}
"""What it tries, and the name."""

assert {len(name.encode()) for what, name in HOSTILE.items() if "longest" in what} == {1024}


def but(*left_out: str) -> list[str]:
    """All but the named ones."""
    assert not set(left_out) - set(HOSTILE), left_out
    return [name for what, name in HOSTILE.items() if what not in left_out]


def called(name: str) -> str:
    """What it tries."""
    return next(what for what, known in HOSTILE.items() if known == name)


def short(names: Iterable[str]) -> list[str]:
    """Those that can be the name of a file."""
    return [name for name in names if len(name.encode()) < 256]


def fill(s3: S3Client, bucket: str, names: Iterable[str]) -> dict[str, bytes]:
    """Objects of these names, each with its name in it; all of them."""
    objects = {name: name.encode() for name in names}
    for name, data in objects.items():
        s3.put_object(Bucket=bucket, Key=name, Body=data)
    return objects


def contents(s3: S3Client, bucket: str) -> dict[str, bytes]:
    """All objects of a bucket, by name."""
    pages = s3.get_paginator("list_objects_v2").paginate(Bucket=bucket)
    names = [entry["Key"] for page in pages for entry in page.get("Contents", [])]
    return {name: s3.get_object(Bucket=bucket, Key=name)["Body"].read() for name in names}
