"""The table of what can be asked for: method, level and subresource, and the operation it is.

The table is data: the router looks requests up in it, and a page can be made of it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from functools import partial
from typing import Final, NamedTuple

from lakebed.s3 import operations as ops
from lakebed.s3.addressing import Address
from lakebed.s3.errors import invalid_argument
from lakebed.s3.query import Query
from lakebed.s3.unsupported import ABSENT, SUBRESOURCES

LISTED_MAX: Final = 1000
PART_NUMBER_MAX: Final = 10_000
BUCKETS_MAX: Final = 10_000
OVERRIDES: Final = (
    "cache-control",
    "content-disposition",
    "content-encoding",
    "content-language",
    "content-type",
    "expires",
)
"""Headers of a response that a GET can set, each by a parameter with `response-` before it."""


class Level(Enum):
    SERVICE = "service"
    BUCKET = "bucket"
    OBJECT = "object"


class Place(NamedTuple):
    """What a route is found by. Without a subresource it is the plain verb."""

    method: str
    level: Level
    subresource: str = ""
    has_source: bool = False  # whether `x-amz-copy-source` is given


class Route(NamedTuple):
    operation: type[ops.Operation]
    parameters: frozenset[str]  # all it takes, the subresource among them
    read: Callable[[Address, Query], ops.Operation]


def _list_buckets(_address: Address, query: Query) -> ops.Operation:
    return ops.ListBuckets(
        prefix=query.text("prefix"),
        region=query.text("bucket-region"),
        max_buckets=query.number("max-buckets", minimum=1, maximum=BUCKETS_MAX),
        continuation_token=query.filled("continuation-token") or "",
    )


def _on_bucket(kind: type[ops.OnBucket], address: Address, _query: Query) -> ops.Operation:
    return kind(bucket=address.bucket)


def _absent(subresource: str, address: Address, _query: Query) -> ops.Operation:
    code, message = ABSENT[subresource]
    return ops.GetAbsentConfiguration(bucket=address.bucket, code=code, message=message)


def _list_objects(address: Address, query: Query) -> ops.Operation:
    kind = query.text("list-type")
    if kind == "2":
        return _list_objects_v2(address, query)
    if kind not in ("", "1"):
        raise invalid_argument(
            "Invalid List Type specified in Request", name="list-type", value=kind
        )
    return ops.ListObjects(
        bucket=address.bucket,
        prefix=query.text("prefix"),
        delimiter=query.text("delimiter"),
        max_keys=_count(query, "max-keys"),
        is_url_encoded=_is_url_encoded(query),
        marker=query.text("marker"),
    )


def _list_objects_v2(address: Address, query: Query) -> ops.Operation:
    return ops.ListObjectsV2(
        bucket=address.bucket,
        prefix=query.text("prefix"),
        delimiter=query.text("delimiter"),
        max_keys=_count(query, "max-keys"),
        is_url_encoded=_is_url_encoded(query),
        continuation_token=query.filled("continuation-token"),
        start_after=query.text("start-after"),
        fetches_owner=query.is_true("fetch-owner"),
    )


def _list_versions(address: Address, query: Query) -> ops.Operation:
    key_marker, id_marker = query.text("key-marker"), query.filled("version-id-marker")
    if id_marker is not None and not key_marker:
        raise invalid_argument(
            "A version-id marker cannot be specified without a key marker.",
            name="version-id-marker",
            value=id_marker,
        )
    return ops.ListObjectVersions(
        bucket=address.bucket,
        prefix=query.text("prefix"),
        delimiter=query.text("delimiter"),
        max_keys=_count(query, "max-keys"),
        is_url_encoded=_is_url_encoded(query),
        key_marker=key_marker,
        version_id_marker=id_marker,
    )


def _list_uploads(address: Address, query: Query) -> ops.Operation:
    return ops.ListMultipartUploads(
        bucket=address.bucket,
        prefix=query.text("prefix"),
        delimiter=query.text("delimiter"),
        max_keys=_count(query, "max-uploads"),
        is_url_encoded=_is_url_encoded(query),
        key_marker=query.text("key-marker"),
        upload_id_marker=query.text("upload-id-marker") or None,
    )


def _on_object(kind: type[ops.OnObject], address: Address, _query: Query) -> ops.Operation:
    return kind(bucket=address.bucket, key=address.key)


def _get_object(kind: type[ops.GetObject], address: Address, query: Query) -> ops.Operation:
    return kind(
        bucket=address.bucket,
        key=address.key,
        version_id=_version_id(query),
        part_number=query.number("partNumber", minimum=1, maximum=PART_NUMBER_MAX),
        overrides=_overrides(query),
    )


def _version_id(query: Query) -> str | None:
    """Whatever it is, it may be told again in a header."""
    found = query.filled("versionId")
    if found is not None and not (found.isascii() and found.isprintable()):
        raise invalid_argument("Invalid version id specified", name="versionId", value=found)
    return found


def _overrides(query: Query) -> tuple[tuple[str, str], ...]:
    found = []
    for header in OVERRIDES if query.names else ():
        name = f"response-{header}"
        value = query.optional(name)
        if value is None:
            continue
        if not value.isprintable():
            raise invalid_argument("A header has printable characters", name=name, value=value)
        found.append((header, value))
    return tuple(found)


def _of_version(
    kind: type[ops.DeleteObject] | type[ops.GetObjectTagging], address: Address, query: Query
) -> ops.Operation:
    return kind(bucket=address.bucket, key=address.key, version_id=_version_id(query))


def _on_upload(kind: type[ops.OnUpload], address: Address, query: Query) -> ops.Operation:
    return kind(bucket=address.bucket, key=address.key, upload_id=_upload_id(query))


def _part(
    kind: type[ops.UploadPart] | type[ops.UploadPartCopy], address: Address, query: Query
) -> ops.Operation:
    number = query.number("partNumber", minimum=1, maximum=PART_NUMBER_MAX)
    if number is None:
        raise invalid_argument(
            "This operation needs the number of the part", name="partNumber", value=""
        )
    return kind(
        bucket=address.bucket, key=address.key, upload_id=_upload_id(query), part_number=number
    )


def _list_parts(address: Address, query: Query) -> ops.Operation:
    return ops.ListParts(
        bucket=address.bucket,
        key=address.key,
        upload_id=_upload_id(query),
        max_parts=_count(query, "max-parts"),
        part_number_marker=query.number("part-number-marker") or 0,
        is_url_encoded=_is_url_encoded(query),
    )


def _count(query: Query, name: str) -> int:
    count = query.number(name)
    return LISTED_MAX if count is None else count


def _is_url_encoded(query: Query) -> bool:
    value = query.text("encoding-type")
    if value not in ("", "url"):
        raise invalid_argument(
            "Invalid Encoding Method specified in Request", name="encoding-type", value=value
        )
    return value == "url"


def _upload_id(query: Query) -> str:
    return query.filled("uploadId") or ""


_PAGE: Final = ("prefix", "delimiter", "encoding-type")
_SERVICE, _BUCKET, _OBJECT = Level


def _bucket_row(kind: type[ops.OnBucket], *parameters: str) -> Route:
    return Route(kind, frozenset(parameters), partial(_on_bucket, kind))


def _object_row(kind: type[ops.OnObject], *parameters: str) -> Route:
    return Route(kind, frozenset(parameters), partial(_on_object, kind))


def _upload_row(kind: type[ops.OnUpload]) -> Route:
    return Route(kind, frozenset({"uploadId"}), partial(_on_upload, kind))


def _get_row(kind: type[ops.GetObject]) -> Route:
    overrides = (f"response-{header}" for header in OVERRIDES)
    return Route(
        kind, frozenset({"versionId", "partNumber", *overrides}), partial(_get_object, kind)
    )


ROUTES: Final[Mapping[Place, Route]] = {
    Place("GET", _SERVICE): Route(
        ops.ListBuckets,
        frozenset({"prefix", "bucket-region", "max-buckets", "continuation-token"}),
        _list_buckets,
    ),
    Place("PUT", _BUCKET): _bucket_row(ops.CreateBucket),
    Place("DELETE", _BUCKET): _bucket_row(ops.DeleteBucket),
    Place("HEAD", _BUCKET): _bucket_row(ops.HeadBucket),
    Place("GET", _BUCKET, "location"): _bucket_row(ops.GetBucketLocation, "location"),
    Place("GET", _BUCKET, "versioning"): _bucket_row(ops.GetBucketVersioning, "versioning"),
    Place("PUT", _BUCKET, "versioning"): _bucket_row(ops.PutBucketVersioning, "versioning"),
    Place("POST", _BUCKET, "delete"): _bucket_row(ops.DeleteObjects, "delete"),
    Place("GET", _BUCKET): Route(
        ops.ListObjects, frozenset({*_PAGE, "max-keys", "marker"}), _list_objects
    ),
    Place("GET", _BUCKET, "list-type"): Route(
        ops.ListObjectsV2,
        frozenset(
            {*_PAGE, "list-type", "max-keys", "continuation-token", "start-after", "fetch-owner"}
        ),
        _list_objects,
    ),
    Place("GET", _BUCKET, "versions"): Route(
        ops.ListObjectVersions,
        frozenset({*_PAGE, "versions", "max-keys", "key-marker", "version-id-marker"}),
        _list_versions,
    ),
    Place("GET", _BUCKET, "uploads"): Route(
        ops.ListMultipartUploads,
        frozenset({*_PAGE, "uploads", "max-uploads", "key-marker", "upload-id-marker"}),
        _list_uploads,
    ),
    Place("PUT", _OBJECT): _object_row(ops.PutObject),
    Place("PUT", _OBJECT, has_source=True): _object_row(ops.CopyObject),
    Place("GET", _OBJECT): _get_row(ops.GetObject),
    Place("HEAD", _OBJECT): _get_row(ops.HeadObject),
    Place("GET", _OBJECT, "tagging"): Route(
        ops.GetObjectTagging,
        frozenset({"tagging", "versionId"}),
        partial(_of_version, ops.GetObjectTagging),
    ),
    Place("DELETE", _OBJECT): Route(
        ops.DeleteObject, frozenset({"versionId"}), partial(_of_version, ops.DeleteObject)
    ),
    Place("POST", _OBJECT, "uploads"): _object_row(ops.CreateMultipartUpload, "uploads"),
    Place("PUT", _OBJECT, "uploadId"): Route(
        ops.UploadPart, frozenset({"uploadId", "partNumber"}), partial(_part, ops.UploadPart)
    ),
    Place("PUT", _OBJECT, "uploadId", has_source=True): Route(
        ops.UploadPartCopy,
        frozenset({"uploadId", "partNumber"}),
        partial(_part, ops.UploadPartCopy),
    ),
    Place("GET", _OBJECT, "uploadId"): Route(
        ops.ListParts,
        frozenset({"uploadId", "max-parts", "part-number-marker", "encoding-type"}),
        _list_parts,
    ),
    Place("POST", _OBJECT, "uploadId"): _upload_row(ops.CompleteMultipartUpload),
    Place("DELETE", _OBJECT, "uploadId"): _upload_row(ops.AbortMultipartUpload),
    **{
        Place("GET", _BUCKET, name): Route(
            ops.GetAbsentConfiguration, frozenset({name}), partial(_absent, name)
        )
        for name in ABSENT
    },
}

SELECTORS: Final = SUBRESOURCES | {place.subresource for place in ROUTES if place.subresource}
"""All parameters of which one says what is asked for."""
