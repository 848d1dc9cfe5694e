"""Buckets, objects and access keys over the wire, for who has no client of S3: the command line."""

from __future__ import annotations

from typing import Annotated, Final

from msgspec import Meta, Struct

from lakebed.api.operation import Nothing, Operation, Raw
from lakebed.api.topics import Count
from lakebed.base.units import TIB

KEYS_MAX = 1000  # of a page
_TAG = "objects"
_KEYS = "keys"


class BucketState(Struct, frozen=True):
    name: str
    created_ms: int
    versioning: str  # enabled, suspended or disabled


class BucketList(Struct, frozen=True):
    buckets: list[BucketState]


class NewBucket(Struct, frozen=True, forbid_unknown_fields=True):
    versioning: str | None = None  # unversioned (or disabled), enabled; else as the store says


class SetVersioning(Struct, frozen=True, forbid_unknown_fields=True):
    versioning: str  # enabled or suspended


class PutQuery(Struct, frozen=True):
    content_type: str | None = None
    metadata: str | None = None  # a JSON object of texts
    cache_control: str | None = None
    content_disposition: str | None = None
    content_encoding: str | None = None
    content_language: str | None = None
    expires: str | None = None
    if_match: str | None = None
    if_none_match: str | None = None
    algorithm: str | None = None


class WireChecksum(Struct, frozen=True):
    algorithm: str
    value: str
    is_composite: bool


class ObjectState(Struct, frozen=True):
    """See `lakebed.seglake.model.ObjectInfo`."""

    bucket: str
    key: str
    version_id: str
    is_null: bool
    is_latest: bool
    state: str
    etag: str
    size: int
    modified_ms: int
    content: dict[str, str | None]
    metadata: dict[str, str]
    checksums: list[WireChecksum]
    part_sizes: list[int]


class VersionQuery(Struct, frozen=True):
    version_id: str | None = None


class GetQuery(Struct, frozen=True):
    """`first` and `last` are bytes, both there."""

    version_id: str | None = None
    first: Count | None = None
    last: Count | None = None


class DeleteQuery(Struct, frozen=True):
    version_id: str | None = None
    if_match: str | None = None


class DeletedState(Struct, frozen=True):
    """See `lakebed.seglake.versions.Deleted`."""

    version_id: str | None
    is_marker: bool


class WireDoomed(Struct, frozen=True, forbid_unknown_fields=True):
    key: str
    version_id: str | None = None


class DeleteMany(Struct, frozen=True, forbid_unknown_fields=True):
    objects: Annotated[list[WireDoomed], Meta(max_length=1000)]


class DeleteOutcome(Struct, frozen=True):
    """One of both."""

    deleted: DeletedState | None = None
    problem: dict[str, object] | None = None


class DeletedMany(Struct, frozen=True):
    outcomes: list[DeleteOutcome]  # in the order of the objects


class ListQuery(Struct, frozen=True):
    prefix: str = ""
    delimiter: str = ""
    after: str = ""
    max_keys: Annotated[int, Meta(ge=1, le=KEYS_MAX)] = KEYS_MAX


class ListedObject(Struct, frozen=True):
    key: str
    version_id: str
    is_null: bool
    state: str
    etag: str
    size: int
    content_type: str | None
    modified_ms: int


class ObjectPage(Struct, frozen=True):
    objects: list[ListedObject]
    prefixes: list[str]
    next_marker: str | None


class NewKey(Struct, frozen=True, forbid_unknown_fields=True):
    label: str = ""
    inflight_max: Annotated[int, Meta(le=1 << 31)] | None = None


class KeyState(Struct, frozen=True):
    access_key: str
    label: str
    policy: str
    is_enabled: bool
    inflight_max: int | None
    created_ms: int
    last_used_ms: int | None


class CreatedKey(Struct, frozen=True):
    key: KeyState
    secret: str  # told this once


class KeyList(Struct, frozen=True):
    keys: list[KeyState]


class SetEnabled(Struct, frozen=True, forbid_unknown_fields=True):
    is_enabled: bool


_BUCKET = "/v1/buckets/{bucket}"
_OBJECT = _BUCKET + "/objects/{key*}"

LIST_BUCKETS: Final = Operation(
    "list_buckets", "GET", "/v1/buckets", "All buckets", BucketList, tag=_TAG, is_repeatable=True
)
ENSURE_BUCKET: Final = Operation(
    "ensure_bucket", "PUT", _BUCKET, "The bucket, created if need be",
    BucketState, body=NewBucket, tag=_TAG, errors=(409,), is_repeatable=True,
)  # fmt: skip
DESCRIBE_BUCKET: Final = Operation(
    "describe_bucket", "GET", _BUCKET, "One bucket", BucketState, tag=_TAG, is_repeatable=True
)
SET_VERSIONING: Final = Operation(
    "set_versioning", "PATCH", _BUCKET, "Enable or suspend versioning",
    BucketState, body=SetVersioning, tag=_TAG, errors=(409,), is_repeatable=True,
)  # fmt: skip
DELETE_BUCKET: Final = Operation(
    "delete_bucket", "DELETE", _BUCKET, "Remove an empty bucket",
    Nothing, status=204, tag=_TAG, errors=(409,),
)  # fmt: skip
LIST_OBJECTS: Final = Operation(
    "list_objects", "GET", _BUCKET + "/objects", "A page of objects, by key",
    ObjectPage, query=ListQuery, tag=_TAG, is_repeatable=True,
)  # fmt: skip
PUT_OBJECT: Final = Operation(
    "put_object", "PUT", _OBJECT, "Store the body, of any size",
    ObjectState, query=PutQuery, also_takes=(Raw.BYTES,), body_bytes_max=5 * TIB, tag=_TAG,
    errors=(412,),
)  # fmt: skip
GET_OBJECT: Final = Operation(
    "get_object", "GET", _OBJECT, "Its bytes, or some of them",
    bytes, query=GetQuery, also_gives=(Raw.BYTES,), tag=_TAG, is_repeatable=True,
)  # fmt: skip
DESCRIBE_OBJECT: Final = Operation(
    "describe_object", "GET", _BUCKET + "/info/{key*}", "All that is known of it, but its bytes",
    ObjectState, query=VersionQuery, tag=_TAG, is_repeatable=True,
)  # fmt: skip
DELETE_OBJECT: Final = Operation(
    "delete_object", "DELETE", _OBJECT, "Hide it behind a delete marker, or remove a version",
    DeletedState, query=DeleteQuery, tag=_TAG, errors=(412,),
)  # fmt: skip
DELETE_OBJECTS: Final = Operation(
    "delete_objects", "POST", _BUCKET + "/delete", "Many at once, each by itself",
    DeletedMany, body=DeleteMany, tag=_TAG,
)  # fmt: skip
LIST_KEYS: Final = Operation(
    "list_keys", "GET", "/v1/keys", "All access keys, without their secrets",
    KeyList, tag=_KEYS, is_repeatable=True,
)  # fmt: skip
CREATE_KEY: Final = Operation(
    "create_key", "POST", "/v1/keys", "A new access key; its secret is told this once",
    CreatedKey, body=NewKey, status=201, tag=_KEYS,
)  # fmt: skip
ENABLE_KEY: Final = Operation(
    "enable_key", "PATCH", "/v1/keys/{access_key}", "Disable or enable a key",
    KeyState, body=SetEnabled, tag=_KEYS, is_repeatable=True,
)  # fmt: skip

OPERATIONS: Final[tuple[Operation[object], ...]] = (
    LIST_BUCKETS, ENSURE_BUCKET, DESCRIBE_BUCKET, SET_VERSIONING, DELETE_BUCKET, LIST_OBJECTS,
    PUT_OBJECT, GET_OBJECT, DESCRIBE_OBJECT, DELETE_OBJECT, DELETE_OBJECTS, LIST_KEYS, CREATE_KEY,
    ENABLE_KEY,
)  # fmt: skip
