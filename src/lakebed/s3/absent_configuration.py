"""Configurations that no bucket has here: a GET is answered with the error AWS has for that.

Tools ask for them on the way to something else: `s3cmd info` fails where `?website` is anything but
404, `mc` and infrastructure tools look at all of them. `?acl` is not among them: `s3cmd cp` would
set on the copy the list it was given, and does without only where lists are not implemented.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from lakebed.http.request import Request
from lakebed.http.response import Response
from lakebed.s3.address import Address
from lakebed.s3.auth.identity import Identity
from lakebed.s3.errors import S3Error
from lakebed.s3.query import Query
from lakebed.s3.service import Service
from lakebed.s3.verb import Level, OnBucket, Operation, Place, Verb


class Absent(NamedTuple):
    """How AWS reports a bucket without the configuration, and how it authorises the request."""

    code: str
    message: str
    action: str


ABSENT: Final[Mapping[str, Absent]] = {
    "cors": Absent(
        "NoSuchCORSConfiguration", "The CORS configuration does not exist", "s3:GetBucketCORS"
    ),
    "encryption": Absent(
        "ServerSideEncryptionConfigurationNotFoundError",
        "The server side encryption configuration was not found",
        "s3:GetEncryptionConfiguration",
    ),
    "lifecycle": Absent(
        "NoSuchLifecycleConfiguration",
        "The lifecycle configuration does not exist",
        "s3:GetLifecycleConfiguration",
    ),
    "object-lock": Absent(
        "ObjectLockConfigurationNotFoundError",
        "Object Lock configuration does not exist for this bucket",
        "s3:GetBucketObjectLockConfiguration",
    ),
    "ownershipControls": Absent(
        "OwnershipControlsNotFoundError",
        "The bucket ownership controls were not found",
        "s3:GetBucketOwnershipControls",
    ),
    "policy": Absent(
        "NoSuchBucketPolicy", "The bucket policy does not exist", "s3:GetBucketPolicy"
    ),
    "policyStatus": Absent(
        "NoSuchBucketPolicy", "The bucket policy does not exist", "s3:GetBucketPolicyStatus"
    ),
    "publicAccessBlock": Absent(
        "NoSuchPublicAccessBlockConfiguration",
        "The public access block configuration was not found",
        "s3:GetBucketPublicAccessBlock",
    ),
    "replication": Absent(
        "ReplicationConfigurationNotFoundError",
        "The replication configuration was not found",
        "s3:GetReplicationConfiguration",
    ),
    "tagging": Absent("NoSuchTagSet", "The TagSet does not exist", "s3:GetBucketTagging"),
    "website": Absent(
        "NoSuchWebsiteConfiguration",
        "The specified bucket does not have a website configuration",
        "s3:GetBucketWebsite",
    ),
}
"""By subresource."""


@dataclass(frozen=True, kw_only=True, slots=True)
class GetAbsentConfiguration(OnBucket):
    """Of something that no bucket has here: told by its own error, if the bucket is there."""

    code: str
    message: str

    @classmethod
    def read(cls, address: Address, query: Query, /) -> Operation:
        (subresource,) = query.names & ABSENT.keys()  # the router found the route by it
        absent = ABSENT[subresource]
        return cls(bucket=address.bucket, code=absent.code, message=absent.message)


def get_absent_configuration(
    service: Service, operation: GetAbsentConfiguration, _request: Request, _identity: Identity
) -> Response:
    """Always raises: the bucket does not exist, or it has no such configuration."""
    service.lake.buckets.get(operation.bucket)
    raise S3Error(operation.code, operation.message, details=[("BucketName", operation.bucket)])


VERBS: Final = tuple(
    Verb(
        operation=GetAbsentConfiguration,
        place=Place("GET", Level.BUCKET, subresource),
        handle=get_absent_configuration,
        action=absent.action,
        writes=False,
    )
    for subresource, absent in ABSENT.items()
)
"""A file in `verbs` that serves one of these takes its place."""
