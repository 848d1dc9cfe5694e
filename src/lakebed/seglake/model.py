"""The values of the object store: what is asked for, and what is returned.

Those that a caller is given are dataclasses, for they cross the wire as they are.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from types import MappingProxyType
from typing import Generic, NamedTuple, TypeVar

CHUNK_BYTES = 4 * 1024 * 1024
RW_POLICY = "rw"  # of access keys
NULL_VERSION = "null"  # how the version id of a null version is told and asked for

_NONE: Mapping[str, str] = MappingProxyType({})

Item = TypeVar("Item")


class Versioning(Enum):
    """The versioning of a bucket. Once enabled or suspended it cannot be disabled again."""

    ENABLED = "enabled"
    SUSPENDED = "suspended"
    DISABLED = "disabled"

    @classmethod
    def _missing_(cls, value: object) -> Versioning | None:
        return cls.DISABLED if value == "unversioned" else None


class State(Enum):
    """Of a version."""

    ACTIVE = "ACTIVE"
    DELETED = "DELETED"  # a delete marker
    DAMAGED = "DAMAGED"
    CONFLICT = "CONFLICT"  # it lost against another site's write


class Algorithm(Enum):
    """The algorithm of a checksum that is stored with an object."""

    CRC32 = "CRC32"
    CRC32C = "CRC32C"
    CRC64NVME = "CRC64NVME"
    SHA1 = "SHA1"
    SHA256 = "SHA256"


@dataclass(frozen=True, slots=True)
class Checksum:
    """`value` is base64 as S3 writes it; of a composite one with `-<parts>` behind it."""

    algorithm: Algorithm
    value: str
    is_composite: bool = False


class Chunk(NamedTuple):
    """A piece of an object, and where its bytes are."""

    hash: bytes  # BLAKE3
    segment_id: str
    offset: int  # of the data
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
    metadata: Mapping[str, str] = field(
        default_factory=lambda: _NONE
    )  # the user's, names in lower case


@dataclass(frozen=True, kw_only=True, slots=True)
class Condition:
    """What must hold of the current object for a write to happen; decided in its transaction."""

    if_match: str | None = None  # an ETag, or "*": there is one
    if_none_match: str | None = None  # only "*": there is none

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
    version_id: str  # 32 hex digits, always, also of a null version
    is_null: bool
    is_latest: bool
    state: State
    etag: str  # without quotes
    size: int
    modified_ms: int
    content: Content
    checksums: tuple[Checksum, ...]
    part_sizes: tuple[int, ...]  # of a multipart upload, else empty

    @property
    def is_marker(self) -> bool:
        return self.state is State.DELETED

    @property
    def shown_version_id(self) -> str:
        """The id as shown to clients: `null` for null versions."""
        return NULL_VERSION if self.is_null else self.version_id


@dataclass(frozen=True, slots=True)
class Page(Generic[Item]):
    """A page of a listing. If there are more entries, the markers say where the next one starts.

    `next_marker` is the last entry, a key or a common prefix. `next_id` is the version or upload
    id of that entry, as it is shown, where there can be several of one key.
    """

    items: list[Item]
    prefixes: list[str]
    next_marker: str | None = None
    next_id: str | None = None

    @property
    def is_truncated(self) -> bool:
        return self.next_marker is not None


class ObjectToDelete(NamedTuple):
    """A key whose newest version to delete, or the one version to remove permanently."""

    key: str
    version_id: str | None = None
    condition: Condition = NO_CONDITION


@dataclass(frozen=True, slots=True)
class Deleted:
    """What a delete did. In a bucket without versions there are no ids to return."""

    key: str
    version_id: str | None  # as it is shown: of the marker made, or of the version removed
    is_marker: bool  # whether that version is, or was, a delete marker


@dataclass(frozen=True, kw_only=True)
class KeyInfo:
    """An access key, without its secret."""

    access_key: str
    label: str
    policy: str
    is_enabled: bool
    inflight_max: int | None  # None: as for all
    created_ms: int
    last_used_ms: int | None


@dataclass(frozen=True, slots=True)
class CreatedKey:
    """A new access key: the only time that its secret is returned."""

    info: KeyInfo
    secret: str = field(repr=False)
