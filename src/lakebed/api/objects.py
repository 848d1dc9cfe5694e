"""The calls for buckets and objects, for programs without an S3 client, such as the command
line."""

from __future__ import annotations

from typing import Annotated, Final

from msgspec import Meta, Struct

from lakebed.api.operation import Nothing, Operation, Raw
from lakebed.api.topics import Count
from lakebed.base.units import TIB
from lakebed.seglake.listing import ListedVersion
from lakebed.seglake.meta.rows import VersionRow
from lakebed.seglake.model import BucketInfo, Content, Deleted, ObjectInfo, Page, Versioning

KEYS_MAX = 1000  # per page
_TAG = "objects"


class BucketList(Struct, frozen=True):
    buckets: list[BucketInfo]


class NewBucket(Struct, frozen=True, forbid_unknown_fields=True):
    versioning: Versioning | None = None  # by default the store's `default_versioning`


class SetVersioning(Struct, frozen=True, forbid_unknown_fields=True):
    versioning: Versioning  # enabled or suspended


class PutQuery(Struct, frozen=True):
    content_type: str | None = None
    metadata: str | None = None  # a JSON object of strings
    cache_control: str | None = None
    content_disposition: str | None = None
    content_encoding: str | None = None
    content_language: str | None = None
    expires: str | None = None
    if_match: str | None = None
    if_none_match: str | None = None
    algorithm: str | None = None


class VersionQuery(Struct, frozen=True):
    version_id: str | None = None


class GetQuery(Struct, frozen=True):
    """The version to read, and the byte range: from `first` to `last`, both included.

    Without `last` the range goes to the end; without `first` it is the final `last` bytes.
    """

    version_id: str | None = None
    first: Count | None = None
    last: Count | None = None


class DeleteQuery(Struct, frozen=True):
    version_id: str | None = None
    if_match: str | None = None


class ObjectDeletion(Struct, frozen=True, forbid_unknown_fields=True):
    """One object to delete."""

    key: str
    version_id: str | None = None
    if_match: str | None = None


class DeleteMany(Struct, frozen=True, forbid_unknown_fields=True):
    objects: Annotated[list[ObjectDeletion], Meta(max_length=1000)]


class DeleteOutcome(Struct, frozen=True):
    """The outcome of one deletion: its result, or the problem document of its error."""

    deleted: Deleted | None = None
    problem: dict[str, object] | None = None


class DeletedMany(Struct, frozen=True):
    outcomes: list[DeleteOutcome]  # in the order of the objects


class CopyObject(Struct, frozen=True, forbid_unknown_fields=True):
    """The target of a copy. `if_match` and `if_none_match` are conditions on the target.

    `content` replaces the content type, the metadata and the headers of the source.
    """

    target: str  # the key of the copy
    bucket: str | None = None  # of the copy; by default the same
    version_id: str | None = None  # of the source
    content: Content | None = None
    if_match: str | None = None
    if_none_match: str | None = None


class ListQuery(Struct, frozen=True):
    prefix: str = ""
    delimiter: str = ""
    after: str = ""
    max_keys: Annotated[int, Meta(ge=1, le=KEYS_MAX)] = KEYS_MAX


class VersionsQuery(Struct, frozen=True):
    """A page of versions, which begins after the markers that the previous page returned."""

    prefix: str = ""
    delimiter: str = ""
    key_marker: str = ""
    version_id_marker: str | None = None
    max_keys: Annotated[int, Meta(ge=1, le=KEYS_MAX)] = KEYS_MAX


_BUCKET = "/v1/buckets/{bucket}"
_OBJECT = _BUCKET + "/objects/{key*}"

LIST_BUCKETS: Final = Operation(
    "list_buckets", "GET", "/v1/buckets", "List all buckets",
    BucketList, tag=_TAG, target="Buckets.list", is_repeatable=True,
)  # fmt: skip
ENSURE_BUCKET: Final = Operation(
    "ensure_bucket", "PUT", _BUCKET, "Open a bucket, creating it if needed",
    BucketInfo, body=NewBucket, tag=_TAG, target="Buckets.creation", errors=(409,),
    is_repeatable=True,
)  # fmt: skip
DESCRIBE_BUCKET: Final = Operation(
    "describe_bucket", "GET", _BUCKET, "Describe a bucket",
    BucketInfo, tag=_TAG, target="Buckets.get", is_repeatable=True,
)  # fmt: skip
SET_VERSIONING: Final = Operation(
    "set_versioning", "PATCH", _BUCKET, "Enable or suspend versioning",
    BucketInfo, body=SetVersioning, tag=_TAG, target="Buckets.configuration", errors=(409,),
    is_repeatable=True,
)  # fmt: skip
DELETE_BUCKET: Final = Operation(
    "delete_bucket", "DELETE", _BUCKET, "Delete an empty bucket",
    Nothing, status=204, tag=_TAG, errors=(409,),
)  # fmt: skip
LIST_OBJECTS: Final = Operation(
    "list_objects", "GET", _BUCKET + "/objects", "List a page of objects, by key",
    Page[VersionRow], query=ListQuery, tag=_TAG, target="Bucket.list_page", is_repeatable=True,
)  # fmt: skip
LIST_VERSIONS: Final = Operation(
    "list_versions", "GET", _BUCKET + "/object-versions",
    "List a page of versions and delete markers, by key",
    Page[ListedVersion], query=VersionsQuery, tag=_TAG, target="Bucket.version_page",
    is_repeatable=True,
)  # fmt: skip
PUT_OBJECT: Final = Operation(
    "put_object", "PUT", _OBJECT, "Store an object",
    ObjectInfo, query=PutQuery, also_takes=(Raw.BYTES,), body_bytes_max=5 * TIB, tag=_TAG,
    errors=(412,),
)  # fmt: skip
GET_OBJECT: Final = Operation(
    "get_object", "GET", _OBJECT, "Read an object, or a range of it",
    bytes, query=GetQuery, also_gives=(Raw.BYTES,), tag=_TAG, is_repeatable=True,
)  # fmt: skip
DESCRIBE_OBJECT: Final = Operation(
    "describe_object", "GET", _BUCKET + "/info/{key*}", "Describe an object",
    ObjectInfo, query=VersionQuery, tag=_TAG, target="Bucket.head", is_repeatable=True,
)  # fmt: skip
COPY_OBJECT: Final = Operation(
    "copy_object", "POST", _BUCKET + "/copy/{key*}", "Copy an object to another key",
    ObjectInfo, body=CopyObject, tag=_TAG, target="Bucket.copying", errors=(412,),
)  # fmt: skip
DELETE_OBJECT: Final = Operation(
    "delete_object", "DELETE", _OBJECT, "Add a delete marker, or remove a version",
    Deleted, query=DeleteQuery, tag=_TAG, target="Bucket.deletion", errors=(412,),
)  # fmt: skip
DELETE_OBJECTS: Final = Operation(
    "delete_objects", "POST", _BUCKET + "/delete", "Delete many objects, each independently",
    DeletedMany, body=DeleteMany, tag=_TAG,
)  # fmt: skip

OPERATIONS: Final[tuple[Operation[object], ...]] = (
    LIST_BUCKETS, ENSURE_BUCKET, DESCRIBE_BUCKET, SET_VERSIONING, DELETE_BUCKET, LIST_OBJECTS,
    LIST_VERSIONS,
    PUT_OBJECT, GET_OBJECT, DESCRIBE_OBJECT, COPY_OBJECT, DELETE_OBJECT, DELETE_OBJECTS,
)  # fmt: skip
