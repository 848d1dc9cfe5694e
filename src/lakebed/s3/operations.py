"""What can be asked for: one class a verb, with what path and query say, checked and typed.

What stands in headers and bodies is read by whoever carries the operation out.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class Operation:
    """`bucket` and `key` are decoded text."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ListBuckets(Operation):
    prefix: str = ""
    region: str = ""
    max_buckets: int | None = None
    continuation_token: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class OnBucket(Operation):
    bucket: str


@dataclass(frozen=True, kw_only=True, slots=True)
class CreateBucket(OnBucket): ...


@dataclass(frozen=True, kw_only=True, slots=True)
class DeleteBucket(OnBucket): ...


@dataclass(frozen=True, kw_only=True, slots=True)
class HeadBucket(OnBucket): ...


@dataclass(frozen=True, kw_only=True, slots=True)
class GetBucketLocation(OnBucket): ...


@dataclass(frozen=True, kw_only=True, slots=True)
class GetBucketVersioning(OnBucket): ...


@dataclass(frozen=True, kw_only=True, slots=True)
class PutBucketVersioning(OnBucket): ...


@dataclass(frozen=True, kw_only=True, slots=True)
class GetAbsentConfiguration(OnBucket):
    """Of something that no bucket has here: told by its own error, if the bucket is there."""

    code: str
    message: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Listing(OnBucket):
    """`max_keys` as asked for, 0 or more; what is told and used is at most 1,000."""

    prefix: str = ""
    delimiter: str = ""
    max_keys: int = 1000
    is_url_encoded: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class ListObjects(Listing):
    marker: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class ListObjectsV2(Listing):
    continuation_token: str | None = None  # as it came
    start_after: str = ""
    fetches_owner: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class ListObjectVersions(Listing):
    key_marker: str = ""
    version_id_marker: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class ListMultipartUploads(Listing):
    key_marker: str = ""
    upload_id_marker: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class DeleteObjects(OnBucket): ...


@dataclass(frozen=True, kw_only=True, slots=True)
class OnObject(OnBucket):
    key: str


@dataclass(frozen=True, kw_only=True, slots=True)
class PutObject(OnObject): ...


@dataclass(frozen=True, kw_only=True, slots=True)
class CopyObject(OnObject):
    """A PUT with `x-amz-copy-source`."""


@dataclass(frozen=True, kw_only=True, slots=True)
class GetObject(OnObject):
    """Headers that `response-…` parameters set are its `overrides`, as (header name, value)."""

    version_id: str | None = None
    part_number: int | None = None
    overrides: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class HeadObject(GetObject): ...


@dataclass(frozen=True, kw_only=True, slots=True)
class GetObjectTagging(OnObject):
    """No object has tags here; it must be there for that to be told."""

    version_id: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class DeleteObject(OnObject):
    version_id: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class CreateMultipartUpload(OnObject): ...


@dataclass(frozen=True, kw_only=True, slots=True)
class OnUpload(OnObject):
    upload_id: str


@dataclass(frozen=True, kw_only=True, slots=True)
class UploadPart(OnUpload):
    part_number: int


@dataclass(frozen=True, kw_only=True, slots=True)
class UploadPartCopy(OnUpload):
    part_number: int


@dataclass(frozen=True, kw_only=True, slots=True)
class ListParts(OnUpload):
    max_parts: int = 1000
    part_number_marker: int = 0
    is_url_encoded: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class CompleteMultipartUpload(OnUpload): ...


@dataclass(frozen=True, kw_only=True, slots=True)
class AbortMultipartUpload(OnUpload): ...
