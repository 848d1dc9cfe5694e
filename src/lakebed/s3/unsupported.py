"""The S3 features that are not supported, so that requests for them are refused, not ignored.

A request for an unsupported subresource such as `?acl` is never handled as if the subresource were
absent: `PUT key?tagging` would overwrite the object with its tags. Headers that request an
unsupported feature are refused too. Some headers are accepted with values that request what the
endpoint does anyway.
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
"""Every subresource of S3, supported or not. The router refuses those without a route."""


class AcceptedHeader(NamedTuple):
    """The values of a header that are accepted without effect, and the error code for any other."""

    values: frozenset[str] | None  # None accepts any value
    code: str = "NotImplemented"


_NEVER: Final = AcceptedHeader(frozenset())
_ANY: Final = AcceptedHeader(None)

HEADERS: Final[Mapping[str, AcceptedHeader]] = {
    "x-amz-acl": AcceptedHeader(frozenset({"private", "bucket-owner-full-control"})),
    "x-amz-api-version": AcceptedHeader(frozenset({"2006-03-01"})),  # sent by the C++ SDK
    "x-amz-bucket-namespace": AcceptedHeader(frozenset({"global"})),
    "x-amz-bucket-object-lock-enabled": AcceptedHeader(frozenset({"false"})),
    "x-amz-bypass-governance-retention": _ANY,  # nothing is retained
    "x-amz-cf-id": _ANY,  # added by a proxy
    "x-amz-expected-bucket-owner": _NEVER,
    "x-amz-if-match-last-modified-time": _NEVER,
    "x-amz-if-match-size": _NEVER,
    "x-amz-mfa": _NEVER,
    "x-amz-object-annotation-directive": _ANY,  # objects have no annotations to copy
    "x-amz-object-lock-legal-hold": AcceptedHeader(frozenset({"off"})),
    "x-amz-object-ownership": AcceptedHeader(frozenset({"bucketownerenforced"})),  # no ACLs
    "x-amz-optional-object-attributes": _ANY,  # no object needs to be restored
    "x-amz-rename-source": _NEVER,
    "x-amz-request-payer": _ANY,  # requests are not charged
    "x-amz-source-expected-bucket-owner": _NEVER,
    "x-amz-storage-class": AcceptedHeader(frozenset({"standard"}), "InvalidStorageClass"),
    "x-amz-tagging": AcceptedHeader(frozenset({""})),
    "x-amz-tagging-directive": _ANY,  # objects have no tags to copy
    "x-amz-te": _ANY,
    "x-amz-user-agent": _ANY,
    "x-amz-website-redirect-location": _NEVER,
    "x-amz-write-offset-bytes": _NEVER,
}
"""The accepted values of headers that have no effect, by header name; values are lower case."""

HEADERS_STARTING: Final = (
    "x-amz-checksum-",  # with an unsupported algorithm
    "x-amz-copy-source-server-side-encryption-",
    "x-amz-grant-",
    "x-amz-object-lock-",
    "x-amz-rename-source-",
    "x-amz-server-side-encryption",
)
"""Prefixes of headers that are refused with any value.

Headers whose names are in `HEADERS` or in the router's `SUPPORTED_HEADERS` are excepted.
"""


def not_implemented(message: str, *, header: str = "", parameter: str = "") -> S3Error:
    named = (("Header", header), ("Parameter", parameter))
    return S3Error("NotImplemented", message, details=[detail for detail in named if detail[1]])
