"""Answers GETs of bucket configurations that Lakebed does not have, such as CORS or lifecycle.

The answer is the error that AWS returns for a bucket without that configuration. Tools depend on
it: `s3cmd info` fails if `?website` returns anything but 404, and `mc` and infrastructure tools
read all of these configurations. `?acl` is not included: `s3cmd cp` reads the ACL of the source and
sets it on the copy, and skips that step only if ACLs are not implemented.
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
    """The error that AWS returns if a bucket lacks a configuration.

    `action` is the permission that AWS requires for reading the configuration.
    """

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
"""The absent configurations by subresource."""


@dataclass(frozen=True, kw_only=True, slots=True)
class GetAbsentConfiguration(OnBucket):
    """A GET of a bucket configuration that Lakebed does not have.

    `code` and `message` are the error that it returns if the bucket exists.
    """

    code: str
    message: str

    @classmethod
    def read(cls, address: Address, query: Query, /) -> Operation:
        (subresource,) = query.names & ABSENT.keys()  # it selected this route
        absent = ABSENT[subresource]
        return cls(bucket=address.bucket, code=absent.code, message=absent.message)


def get_absent_configuration(
    service: Service, operation: GetAbsentConfiguration, _request: Request, _identity: Identity
) -> Response:
    """Always raises an error: `NoSuchBucket`, or the S3 error for the missing configuration."""
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
"""The routes of absent configurations. A module in `verbs` can declare a verb that replaces one."""
