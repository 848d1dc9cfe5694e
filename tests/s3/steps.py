"""Requests drawn at random, as calls of boto3 that mean the same to any S3 server.

Names of servers' own making (versions, uploads) stand as references: the n-th that was told. So
one sequence can be sent to two servers, each under its own names.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from random import Random
from typing import Any, Final, NamedTuple

from tests.s3.ledger import md5

BUCKETS: Final = ("alpha", "beta", "gamma")
BODIES: Final = (b"", b"a", b"hello world", bytes(range(256)) * 3)
PART: Final = b"p" * (5 * 1024 * 1024)
KEYS: Final = (
    "a",
    "a/b",
    "a/b/c",
    "a/d",
    "b",
    "c d+e",
    "f%2Fg%25",
    "h&i=j?k#l",
    "<m>'\"n&amp;",
    "ä/ö/漢字",
    "😀",
    "o:p;q@r,s$t!",
    "u~v*w(x)",
    "z" * 1024,
)
PREFIXES: Final = ("", "a", "a/", "a/b", "ä/", "f%", "zz", "nothing", "c ")
DELIMITERS: Final = ("/", "b", "ö/", "a/")
PAST: Final = dt.datetime(2001, 1, 1, tzinfo=dt.UTC)
LATER: Final = dt.datetime(2099, 1, 1, tzinfo=dt.UTC)
RANGES: Final = (
    "bytes=0-0",
    "bytes=2-5",
    "bytes=4-",
    "bytes=-3",
    "bytes=0-99999",
    "bytes=700-9999",
    "bytes=5000-",
)


@dataclass(frozen=True)
class Version:
    """The n-th version that was told, of whatever object; modulo how many there are.

    `goes_along`: the step is about that version's object then, and not about the one it names.
    """

    number: int
    goes_along: bool = True


@dataclass(frozen=True)
class Written:
    """In the place of a key: the n-th that was written, from the last one; it gives the bucket."""

    number: int


@dataclass(frozen=True)
class Upload:
    """The n-th upload that was begun, from the last one; the step is about its object."""

    number: int


@dataclass(frozen=True)
class Parts:
    """Of the upload of the step: those that were put, or a list that is wrong in some way."""

    wrong: str = ""  # "etag", "unknown"


@dataclass(frozen=True)
class Source:
    """Of a copy."""

    bucket: str
    key: str | Written
    version: Version | None = None


@dataclass(frozen=True)
class Step:
    """A method of boto3's client, and its arguments."""

    operation: str
    arguments: Mapping[str, Any]

    def __repr__(self) -> str:
        named = ", ".join(f"{name}={value!r}" for name, value in self.arguments.items())
        return f"{self.operation}({named})"


def etag(body: bytes) -> str:
    return f'"{md5(body)}"'


Draw = Callable[[Random], Any]


def one_of(*values: Any) -> Draw:
    return lambda random: random.choice(values)


def versions(random: Random) -> Version:
    return Version(random.randrange(30), goes_along=random.random() < 0.8)


def keys(random: Random) -> str:
    """Often the same ones."""
    return random.choice(KEYS[:3] if random.random() < 0.5 else KEYS)


def known_keys(random: Random) -> str | Written:
    return Written(random.randrange(6)) if random.random() < 0.7 else keys(random)


def sources(random: Random) -> Source:
    version = versions(random) if random.random() < 0.3 else None
    return Source(buckets(random), known_keys(random), version)


def metadata(random: Random) -> dict[str, str]:
    names = random.sample(("one", "two-2", "three_3"), random.randrange(3))
    return {name: random.choice(("x", "y z", "a=b; c", "")) for name in names}


def doomed(random: Random) -> dict[str, Any]:
    names = {keys(random) for _ in range(random.randint(1, 4))}
    return {
        "Objects": [{"Key": name} for name in sorted(names)],
        "Quiet": random.random() < 0.3,
    }


buckets = one_of(*BUCKETS[:2] * 6, BUCKETS[2])
bodies = one_of(*BODIES)
uploads = one_of(Upload(0), Upload(1), Upload(2))
etags = one_of(*map(etag, BODIES), '"00000000000000000000000000000000"')
dates = one_of(PAST, LATER)
bucket: Final = {"Bucket": buckets}
thing: Final = {"Bucket": buckets, "Key": keys}
known: Final = {"Bucket": buckets, "Key": known_keys}
of_upload: Final = {"UploadId": uploads}
content: Final = {
    "Metadata": metadata,
    "ContentType": one_of("text/plain", "application/json; charset=utf-8"),
    "CacheControl": one_of("max-age=60"),
    "ContentDisposition": one_of('attachment; filename="x.txt"'),
    "ContentLanguage": one_of("de"),
    "ContentEncoding": one_of("gzip"),
}
reads: Final = {
    "VersionId": versions,
    "Range": one_of(*RANGES),
    "PartNumber": one_of(1, 2, 3),
    "IfMatch": etags,
    "IfNoneMatch": etags,
    "IfModifiedSince": dates,
    "IfUnmodifiedSince": dates,
}
overrides: Final = {
    "ResponseContentType": one_of("text/x"),
    "ResponseCacheControl": one_of("no-store"),
}
page: Final = {
    "Prefix": one_of(*PREFIXES),
    "Delimiter": one_of(*DELIMITERS),
    "MaxKeys": one_of(1, 2, 3, 1000),
}
starts = one_of(*KEYS[:8], "a/", "ä/ö/")
part_numbers = one_of(1, 2, 2, 7)
copied: Final = {"MetadataDirective": one_of("COPY", "REPLACE"), "Metadata": metadata}


class Kind(NamedTuple):
    """Of steps: how often it comes, what it needs, and what else it may have."""

    weight: int
    operation: str
    needed: Mapping[str, Draw] = {}
    optional: Mapping[str, Draw] = {}
    options_max: int = 2


KINDS: Final = (
    Kind(2, "create_bucket", bucket),
    Kind(1, "delete_bucket", bucket),
    Kind(1, "head_bucket", bucket),
    Kind(1, "get_bucket_location", bucket),
    Kind(1, "list_buckets"),
    Kind(1, "get_bucket_versioning", bucket),
    Kind(
        1,
        "put_bucket_versioning",
        bucket | {"VersioningConfiguration": one_of({"Status": "Enabled"})},
    ),
    Kind(
        22,
        "put_object",
        thing | {"Body": bodies},
        content | {"IfNoneMatch": one_of("*"), "IfMatch": etags},
    ),
    Kind(12, "get_object", known, reads | overrides),
    Kind(8, "head_object", known, reads),
    Kind(5, "delete_object", known, {"VersionId": versions}),
    Kind(
        8,
        "copy_object",
        thing | {"CopySource": sources},
        copied | {"ContentType": one_of("text/csv"), "CopySourceIfNoneMatch": etags},
    ),
    Kind(3, "delete_objects", bucket | {"Delete": doomed}),
    Kind(6, "list_objects", bucket, page | {"Marker": starts}, 4),
    Kind(
        6,
        "list_objects_v2",
        bucket,
        page | {"StartAfter": starts, "FetchOwner": one_of(True, False)},
        4,
    ),
    Kind(6, "list_object_versions", bucket, page, 3),
    Kind(7, "create_multipart_upload", thing, content),
    Kind(
        10,
        "upload_part",
        of_upload | {"PartNumber": part_numbers, "Body": one_of(PART, *BODIES[1:])},
    ),
    Kind(
        3,
        "upload_part_copy",
        of_upload | {"PartNumber": part_numbers, "CopySource": sources},
        {"CopySourceRange": one_of("bytes=0-0", "bytes=1-3", "bytes=0-9999")},
    ),
    Kind(3, "list_parts", of_upload, {"MaxParts": one_of(1000)}),
    Kind(
        6,
        "complete_multipart_upload",
        of_upload | {"MultipartUpload": one_of(*[Parts()] * 6, Parts("etag"), Parts("unknown"))},
    ),
    Kind(1, "abort_multipart_upload", of_upload),
    Kind(2, "list_multipart_uploads", bucket, {"Prefix": one_of(*PREFIXES)}),
)
_WEIGHTS: Final = [kind.weight for kind in KINDS]

FIRST: Final = (
    Step("create_bucket", {"Bucket": BUCKETS[0]}),
    Step("create_bucket", {"Bucket": BUCKETS[1]}),
    Step(
        "put_bucket_versioning",
        {"Bucket": BUCKETS[1], "VersioningConfiguration": {"Status": "Enabled"}},
    ),
)
"""So that most of what follows finds something."""


def drawn(random: Random, count: int) -> Iterator[Step]:
    yield from FIRST
    for kind in random.choices(KINDS, _WEIGHTS, k=count):
        arguments = {name: draw(random) for name, draw in kind.needed.items()}
        options_max = min(kind.options_max, len(kind.optional))
        names = random.sample(sorted(kind.optional), random.randint(0, options_max))
        arguments |= {name: kind.optional[name](random) for name in names}
        yield Step(kind.operation, arguments)
