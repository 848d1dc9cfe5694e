"""What S3 has and this endpoint has not: tables, so that none of it is ever ignored.

A subresource (`?acl`) that is not supported is refused by name, whatever the method, and never
becomes the plain verb: `PUT key?tagging` would overwrite the object with its tags. So is a header
that asks for something that would not happen. A few can be taken at their word, because what they
ask for is so anyway; those stand here with the values that are.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from lakebed.s3.errors import S3Error

SUBRESOURCES: Final = frozenset(
    {
        "abac",
        "accelerate",
        "acl",
        "analytics",
        "annotation",
        "attributes",
        "cors",
        "encryption",
        "intelligent-tiering",
        "inventory",
        "legal-hold",
        "lifecycle",
        "logging",
        "metadataAnnotationTable",
        "metadataConfiguration",
        "metadataInventoryTable",
        "metadataJournalTable",
        "metadataTable",
        "metrics",
        "notification",
        "object-lock",
        "ownershipControls",
        "policy",
        "policyStatus",
        "publicAccessBlock",
        "renameObject",
        "replication",
        "requestPayment",
        "restore",
        "retention",
        "select",
        "session",
        "tagging",
        "torrent",
        "website",
    }
)


class Absent(NamedTuple):
    """What AWS says of a bucket that has no such configuration."""

    code: str
    message: str


ABSENT: Final[Mapping[str, Absent]] = {
    "cors": Absent("NoSuchCORSConfiguration", "The CORS configuration does not exist"),
    "encryption": Absent(
        "ServerSideEncryptionConfigurationNotFoundError",
        "The server side encryption configuration was not found",
    ),
    "lifecycle": Absent(
        "NoSuchLifecycleConfiguration", "The lifecycle configuration does not exist"
    ),
    "object-lock": Absent(
        "ObjectLockConfigurationNotFoundError",
        "Object Lock configuration does not exist for this bucket",
    ),
    "ownershipControls": Absent(
        "OwnershipControlsNotFoundError", "The bucket ownership controls were not found"
    ),
    "policy": Absent("NoSuchBucketPolicy", "The bucket policy does not exist"),
    "policyStatus": Absent("NoSuchBucketPolicy", "The bucket policy does not exist"),
    "publicAccessBlock": Absent(
        "NoSuchPublicAccessBlockConfiguration",
        "The public access block configuration was not found",
    ),
    "replication": Absent(
        "ReplicationConfigurationNotFoundError", "The replication configuration was not found"
    ),
    "tagging": Absent("NoSuchTagSet", "The TagSet does not exist"),
    "website": Absent(
        "NoSuchWebsiteConfiguration",
        "The specified bucket does not have a website configuration",
    ),
}
"""A GET of these is answered with the truth: tools ask for them on the way to something else.

`s3cmd info` fails where `?website` is anything but 404, `mc` and infrastructure tools look at all
of them. `?acl` is not among them: `s3cmd cp` would set on the copy the list it was told, and lets
it be only where lists are not implemented.
"""


class Taken(NamedTuple):
    """The values of a header that change nothing, and the error of all others."""

    values: frozenset[str] | None  # None: any
    code: str = "NotImplemented"


_NEVER: Final = Taken(frozenset())
_ANY: Final = Taken(None)

HEADERS: Final[Mapping[str, Taken]] = {
    "x-amz-acl": Taken(frozenset({"private", "bucket-owner-full-control"})),
    "x-amz-api-version": Taken(frozenset({"2006-03-01"})),  # of the SDK for C++
    "x-amz-bucket-namespace": Taken(frozenset({"global"})),
    "x-amz-bucket-object-lock-enabled": Taken(frozenset({"false"})),
    "x-amz-bypass-governance-retention": _ANY,  # nothing is retained
    "x-amz-cf-id": _ANY,  # of a proxy
    "x-amz-expected-bucket-owner": _NEVER,
    "x-amz-if-match-last-modified-time": _NEVER,
    "x-amz-if-match-size": _NEVER,
    "x-amz-mfa": _NEVER,
    "x-amz-object-annotation-directive": _ANY,  # there are none to copy
    "x-amz-object-lock-legal-hold": Taken(frozenset({"off"})),
    "x-amz-object-ownership": Taken(frozenset({"bucketownerenforced"})),  # there are no lists
    "x-amz-optional-object-attributes": _ANY,  # nothing has to be restored
    "x-amz-rename-source": _NEVER,
    "x-amz-request-payer": _ANY,  # nobody pays
    "x-amz-source-expected-bucket-owner": _NEVER,
    "x-amz-storage-class": Taken(frozenset({"standard"}), "InvalidStorageClass"),
    "x-amz-tagging": Taken(frozenset({""})),
    "x-amz-tagging-directive": _ANY,  # there are none to copy
    "x-amz-te": _ANY,
    "x-amz-user-agent": _ANY,
    "x-amz-website-redirect-location": _NEVER,
    "x-amz-write-offset-bytes": _NEVER,
}
"""By name; values in lower case."""

HEADERS_STARTING: Final = (
    "x-amz-checksum-",  # of an algorithm that is not among the supported ones
    "x-amz-copy-source-server-side-encryption-",
    "x-amz-grant-",
    "x-amz-object-lock-",
    "x-amz-rename-source-",
    "x-amz-server-side-encryption",
)
"""Refused with any value, unless `HEADERS` has the name."""

SUPPORTED_HEADERS: Final = frozenset(
    {
        "x-amz-checksum-algorithm",
        "x-amz-checksum-crc32",
        "x-amz-checksum-crc32c",
        "x-amz-checksum-crc64nvme",
        "x-amz-checksum-mode",
        "x-amz-checksum-sha1",
        "x-amz-checksum-sha256",
        "x-amz-checksum-type",
        "x-amz-content-sha256",
        "x-amz-copy-source",
        "x-amz-copy-source-if-match",
        "x-amz-copy-source-if-modified-since",
        "x-amz-copy-source-if-none-match",
        "x-amz-copy-source-if-unmodified-since",
        "x-amz-copy-source-range",
        "x-amz-date",
        "x-amz-decoded-content-length",
        "x-amz-metadata-directive",
        "x-amz-mp-object-size",
        "x-amz-sdk-checksum-algorithm",
        "x-amz-security-token",
        "x-amz-trailer",
    }
)
"""Those that somebody reads: `auth`, or the verbs."""

_STANDING = "A header you provided implies functionality that is not implemented"


def check_headers(headers: Mapping[str, str], *, is_write: bool) -> None:
    """Refuse what would not happen; of a write also what nobody here knows."""
    for name, value in headers.items():
        if not name.startswith("x-amz-") or name in SUPPORTED_HEADERS:
            continue
        if name.startswith("x-amz-meta-"):
            continue
        taken = HEADERS.get(name)
        if taken is None:
            if is_write or name.startswith(HEADERS_STARTING):
                raise not_implemented(_STANDING, header=name)
        elif taken.values is not None and value.strip().lower() not in taken.values:
            if taken.code == "NotImplemented":
                raise not_implemented(_STANDING, header=name)
            raise S3Error(taken.code, f"The value of {name} is not one that is supported")


def not_implemented(message: str, *, header: str = "", parameter: str = "") -> S3Error:
    named = (("Header", header), ("Parameter", parameter))
    return S3Error("NotImplemented", message, details=[detail for detail in named if detail[1]])
