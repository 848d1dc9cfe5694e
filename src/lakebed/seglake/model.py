"""The values that the object store takes and returns.

Returned values are dataclasses, so that they can be sent over the wire unchanged.
"""

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

    ACTIVE = "ACTIVE"
    DELETED = "DELETED"  # a delete marker
    DAMAGED = "DAMAGED"
    CONFLICT = "CONFLICT"  # a write of another site won


class Algorithm(Enum):
    """The algorithm of a checksum that is stored with an object."""

    CRC32 = "CRC32"
    CRC32C = "CRC32C"
    CRC64NVME = "CRC64NVME"
    SHA1 = "SHA1"
    SHA256 = "SHA256"


@dataclass(frozen=True, slots=True)
class Checksum:
    """A checksum in base64, as in S3; a composite one ends in `-` and the number of parts."""

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
    """The headers that are stored with an object and returned with it."""

    content_type: str | None = None
    cache_control: str | None = None
    content_disposition: str | None = None
    content_encoding: str | None = None
    content_language: str | None = None
    expires: str | None = None
    metadata: Mapping[str, str] = field(default_factory=lambda: _NONE)  # names in lower case


@dataclass(frozen=True, kw_only=True, slots=True)
class Condition:
    """A condition on the current object that a write needs; checked in the write's transaction."""

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
    part_sizes: tuple[int, ...]  # empty unless it was a multipart upload

    @property
    def is_marker(self) -> bool:
        return self.state is State.DELETED

    @property
    def shown_version_id(self) -> str:
        """The version id in responses: a null version is shown as `null`."""
        return NULL_VERSION if self.is_null else self.version_id


@dataclass(frozen=True, slots=True)
class Page(Generic[Item]):
    """A page of a listing. If more entries follow, the next page starts after the markers.

    `next_marker` is the last entry of this page, a key or a common prefix. `next_id` is the version
    or upload id of that entry, in listings where a key can have several.
    """

    items: list[Item]
    prefixes: list[str]
    next_marker: str | None = None
    next_id: str | None = None

    @property
    def is_truncated(self) -> bool:
        return self.next_marker is not None


class ObjectToDelete(NamedTuple):
    """An object to delete, or one version of it to remove permanently if `version_id` is set."""

    key: str
    version_id: str | None = None
    condition: Condition = NO_CONDITION


@dataclass(frozen=True, slots=True)
class Deleted:
    """The result of a delete. In an unversioned bucket it has no version id."""

    key: str
    version_id: str | None  # of the new delete marker, or of the version removed
    is_marker: bool  # whether that version is, or was, a delete marker


@dataclass(frozen=True, kw_only=True)
class KeyInfo:
    """An access key, without its secret."""

    access_key: str
    label: str
    policy: str
    is_enabled: bool
    inflight_max: int | None  # None: the endpoint's limit applies
    created_ms: int
    last_used_ms: int | None


@dataclass(frozen=True, slots=True)
class CreatedKey:
    """A new access key with its secret, which is returned only once."""

    info: KeyInfo
    secret: str = field(repr=False)
