"""The types of the values that are passed to the object store and returned by it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from types import MappingProxyType
from typing import Generic, NamedTuple, TypeVar

CHUNK_BYTES = 4 * 1024 * 1024
RW_POLICY = "rw"  # the policy of an access key that may read and write
NULL_VERSION = "null"  # the version id that requests and responses use for a null version

_NONE: Mapping[str, str] = MappingProxyType({})

Item = TypeVar("Item")


class Versioning(Enum):
    """The versioning state of a bucket. Once enabled, it can be suspended but not disabled."""

    ENABLED = "enabled"
    SUSPENDED = "suspended"
    DISABLED = "disabled"

    @classmethod
    def _missing_(cls, value: object) -> Versioning | None:
        return cls.DISABLED if value == "unversioned" else None


class State(Enum):
    """The state of a version."""

    ACTIVE = "ACTIVE"  # not known to be damaged
    DELETED = "DELETED"  # a delete marker
    DAMAGED = "DAMAGED"  # a read or a check found damaged chunks
    CONFLICT = "CONFLICT"  # lost against a write at another site; no code sets it yet


class Algorithm(Enum):
    """The algorithm of a checksum that is stored with an object."""

    CRC32 = "CRC32"
    CRC32C = "CRC32C"
    CRC64NVME = "CRC64NVME"
    SHA1 = "SHA1"
    SHA256 = "SHA256"


@dataclass(frozen=True, slots=True)
class Checksum:
    """A checksum in base64, as in S3; a composite checksum ends in `-` and the number of parts."""

    algorithm: Algorithm
    value: str
    is_composite: bool = False


class Chunk(NamedTuple):
    """A piece of an object and its position in a segment."""

    hash: bytes  # BLAKE3
    segment_id: str
    offset: int  # of the data in the segment's file
    length: int


@dataclass(frozen=True, kw_only=True)
class Content:
    """The HTTP headers and user metadata that are stored with an object.

    Responses to reads of the object contain them.
    """

    content_type: str | None = None
    cache_control: str | None = None
    content_disposition: str | None = None
    content_encoding: str | None = None
    content_language: str | None = None
    expires: str | None = None
    metadata: Mapping[str, str] = field(default_factory=lambda: _NONE)  # names in lower case


@dataclass(frozen=True, kw_only=True, slots=True)
class Condition:
    """A condition that the current object must meet for a write to succeed.

    It is checked in the transaction of the write.
    """

    if_match: str | None = None  # the object's ETag, or "*": the object exists
    if_none_match: str | None = None  # only "*": the object does not exist

    @property
    def is_given(self) -> bool:
        return self.if_match is not None or self.if_none_match is not None


NO_CONDITION = Condition()


@dataclass(frozen=True, kw_only=True)
class BucketInfo:
    name: str
    created_ms: int
    versioning: Versioning


@dataclass(frozen=True, kw_only=True, slots=True)
class ObjectInfo:
    """A version of an object, or a delete marker."""

    bucket: str
    key: str
    version_id: str  # 32 hex digits, also for a null version
    is_null: bool
    is_latest: bool
    state: State
    etag: str  # without quotes
    size: int
    modified_ms: int
    content: Content
    checksums: tuple[Checksum, ...]
    part_sizes: tuple[int, ...]  # empty unless the object was uploaded in parts

    @property
    def is_marker(self) -> bool:
        return self.state is State.DELETED

    @property
    def shown_version_id(self) -> str:
        """The version id that clients see: `null` for a null version."""
        return NULL_VERSION if self.is_null else self.version_id


@dataclass(frozen=True, slots=True)
class Page(Generic[Item]):
    """A page of a listing: `items`, and the common prefixes in `prefixes`.

    If more entries follow, the next page starts after `next_marker`, which is the last key or
    common prefix of this page. In listings of versions or uploads, `next_id` is the version id or
    upload id of this page's last entry, or None if that is a common prefix. `next_marker` and
    `next_id` are None on the last page, and if the request was for 0 entries.
    """

    items: list[Item]
    prefixes: list[str]
    next_marker: str | None = None
    next_id: str | None = None

    @property
    def is_truncated(self) -> bool:
        return self.next_marker is not None


class ObjectToDelete(NamedTuple):
    """An object to delete or, if `version_id` is set, one version to remove permanently."""

    key: str
    version_id: str | None = None
    condition: Condition = NO_CONDITION


@dataclass(frozen=True, slots=True)
class Deleted:
    """The result of a delete.

    `version_id` is the id of the new delete marker, or of the version that the request named. In an
    unversioned bucket it is None.
    """

    key: str
    version_id: str | None
    is_marker: bool  # whether a delete marker was added or removed


@dataclass(frozen=True, kw_only=True)
class KeyInfo:
    """An access key, without its secret. A key with the policy `root` has no request limit."""

    access_key: str
    label: str
    policy: str
    is_enabled: bool
    inflight_max: int | None  # maximum concurrent requests; None: the endpoint's maximum
    created_ms: int
    last_used_ms: int | None


@dataclass(frozen=True, slots=True)
class CreatedKey:
    """A new access key with its secret, which no listing of the keys returns again."""

    info: KeyInfo
    secret: str = field(repr=False)
