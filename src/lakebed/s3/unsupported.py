"""What S3 has and this endpoint may not serve: tables, so that none of it is ever ignored.

A subresource (`?acl`) without a route is refused by name, whatever the method, and never becomes
the plain verb: `PUT key?tagging` would overwrite the object with its tags. So is a header that asks
for something that would not happen. A few headers ask for what is so anyway; those stand here with
the values that are accepted.
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
        "delete",
        "encryption",
        "intelligent-tiering",
        "inventory",
        "legal-hold",
        "lifecycle",
        "list-type",
        "location",
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
        "uploadId",
        "uploads",
        "versioning",
        "versions",
        "website",
    }
)
"""Every subresource that S3 has, served or not: one that has no route is refused by name."""


class AcceptedHeader(NamedTuple):
    """The values of a header that change nothing, and the error of all others."""

    values: frozenset[str] | None  # None: any
    code: str = "NotImplemented"


_NEVER: Final = AcceptedHeader(frozenset())
_ANY: Final = AcceptedHeader(None)

HEADERS: Final[Mapping[str, AcceptedHeader]] = {
    "x-amz-acl": AcceptedHeader(frozenset({"private", "bucket-owner-full-control"})),
    "x-amz-api-version": AcceptedHeader(frozenset({"2006-03-01"})),  # of the SDK for C++
    "x-amz-bucket-namespace": AcceptedHeader(frozenset({"global"})),
    "x-amz-bucket-object-lock-enabled": AcceptedHeader(frozenset({"false"})),
    "x-amz-bypass-governance-retention": _ANY,  # nothing is retained
    "x-amz-cf-id": _ANY,  # of a proxy
    "x-amz-expected-bucket-owner": _NEVER,
    "x-amz-if-match-last-modified-time": _NEVER,
    "x-amz-if-match-size": _NEVER,
    "x-amz-mfa": _NEVER,
    "x-amz-object-annotation-directive": _ANY,  # there are none to copy
    "x-amz-object-lock-legal-hold": AcceptedHeader(frozenset({"off"})),
    "x-amz-object-ownership": AcceptedHeader(
        frozenset({"bucketownerenforced"})
    ),  # there are no lists
    "x-amz-optional-object-attributes": _ANY,  # nothing has to be restored
    "x-amz-rename-source": _NEVER,
    "x-amz-request-payer": _ANY,  # nobody pays
    "x-amz-source-expected-bucket-owner": _NEVER,
    "x-amz-storage-class": AcceptedHeader(frozenset({"standard"}), "InvalidStorageClass"),
    "x-amz-tagging": AcceptedHeader(frozenset({""})),
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


def not_implemented(message: str, *, header: str = "", parameter: str = "") -> S3Error:
    named = (("Header", header), ("Parameter", parameter))
    return S3Error("NotImplemented", message, details=[detail for detail in named if detail[1]])
