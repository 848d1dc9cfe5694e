"""Which buckets cannot be changed over S3, whoever asks.

The bucket with the cold segments of the store's own logs is theirs: an object of it that changes
or goes away is lost log data. It can be listed and read like any other.
"""

from __future__ import annotations

from typing import Final

from lakebed.s3.errors import S3Error
from lakebed.s3.operations import (
    AbortMultipartUpload,
    CompleteMultipartUpload,
    CopyObject,
    CreateBucket,
    CreateMultipartUpload,
    DeleteBucket,
    DeleteObject,
    DeleteObjects,
    OnBucket,
    Operation,
    PutBucketVersioning,
    PutObject,
    UploadPart,
    UploadPartCopy,
)
from lakebed.store.lake_object_store import BUCKET

CHANGES: Final = frozenset(
    {
        AbortMultipartUpload,
        CompleteMultipartUpload,
        CopyObject,
        CreateBucket,
        CreateMultipartUpload,
        DeleteBucket,
        DeleteObject,
        DeleteObjects,
        PutBucketVersioning,
        PutObject,
        UploadPart,
        UploadPartCopy,
    }
)
"""The operations that change something in their bucket."""


def check_change(operation: Operation) -> None:
    """`AccessDenied` for a change to a bucket that is the store's own."""
    is_own = isinstance(operation, OnBucket) and operation.bucket == BUCKET
    if is_own and type(operation) in CHANGES:
        raise S3Error(
            "AccessDenied",
            f"The bucket {BUCKET} belongs to the logs of this store: it can only be read.",
        )
