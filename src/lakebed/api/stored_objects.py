"""All that a bucket has over the wire: versions with their manifests, and parts of uploads.

For readers of the whole, who cut it by a sample of the keys. A page goes on behind the place that
the last one told, and costs what is on it. Manifests are given as they are stored (see
`lakebed.seglake.manifest`).
"""

from __future__ import annotations

from typing import Annotated, Final

from msgspec import Meta, Struct

from lakebed.api.operation import Operation
from lakebed.base.units import MIB

VERSIONS_MAX = 1000  # of a page
PARTS_MAX = 1000
MANIFEST_BYTES = 8 * MIB  # a page that has so many ends
_TAG = "objects"


class StoredVersionsQuery(Struct, frozen=True):
    """Of keys that begin with `prefix` and are behind `after`; with `hlc` and `site_id` also the
    versions of that key that are older than the one they name. `only_current`: of each key the
    newest, and no delete markers."""

    prefix: str = ""
    after: str = ""
    hlc: str | None = None
    site_id: str = ""
    max_versions: Annotated[int, Meta(ge=1, le=VERSIONS_MAX)] = VERSIONS_MAX
    manifests: bool = False
    only_current: bool = False


class StoredVersion(Struct, frozen=True):
    """A version, or a delete marker. Its manifest is there if it was asked for, and it has one."""

    key: str
    version_id: str
    is_null: bool
    is_latest: bool
    state: str
    etag: str
    size: int
    content_type: str | None
    modified_ms: int
    hlc: str
    site_id: str
    file_state: int | None = None  # of its manifest: 0 to be written, 1 written, 2 to be removed
    manifest: bytes | None = None


class StoredVersions(Struct, frozen=True):
    """A page, by key and then the newest first."""

    versions: list[StoredVersion]
    has_more: bool  # behind the last of them


class StoredPartsQuery(Struct, frozen=True):
    """Of keys that begin with `prefix` and are behind `after`; with `upload_id` also the uploads to
    that key behind it, and its own parts behind `part`."""

    prefix: str = ""
    after: str = ""
    upload_id: str | None = None
    part: Annotated[int, Meta(ge=0, le=1 << 31)] = 0
    max_parts: Annotated[int, Meta(ge=1, le=PARTS_MAX)] = PARTS_MAX


class StoredPart(Struct, frozen=True):
    """A part of an upload that is under way."""

    key: str
    upload_id: str
    number: int
    etag: str
    size: int
    modified_ms: int
    checksums: str  # as JSON
    manifest: bytes


class PartMarker(Struct, frozen=True):
    """What the next page is asked for with."""

    after: str
    upload_id: str
    part: int


class StoredParts(Struct, frozen=True):
    """A page, by key, upload and number. It may have no parts, and yet there are more."""

    parts: list[StoredPart]
    next: PartMarker | None


class SampleQuery(Struct, frozen=True):
    only_current: bool = False  # of objects that are there now, not of all versions


class SampledKey(Struct, frozen=True):
    bucket: str
    key: str


class KeySample(Struct, frozen=True):
    """Some hundred keys, in order; one stands there as often as it was met."""

    keys: list[SampledKey]
    row_count: int  # of the whole store, about


_BUCKET = "/v1/buckets/{bucket}"

LIST_STORED_VERSIONS: Final = Operation(
    "list_stored_versions", "GET", _BUCKET + "/versions",
    "A page of all versions and delete markers, with their manifests if they are asked for",
    StoredVersions, query=StoredVersionsQuery, tag=_TAG, is_repeatable=True,
)  # fmt: skip
LIST_STORED_PARTS: Final = Operation(
    "list_stored_parts", "GET", _BUCKET + "/parts", "A page of the parts of uploads under way",
    StoredParts, query=StoredPartsQuery, tag=_TAG, is_repeatable=True,
)  # fmt: skip
SAMPLE_KEYS: Final = Operation(
    "sample_keys", "GET", "/v1/objects/sample", "How keys are spread, and how many rows there are",
    KeySample, query=SampleQuery, tag=_TAG, is_repeatable=True,
)  # fmt: skip

OPERATIONS: Final[tuple[Operation[object], ...]] = (
    LIST_STORED_VERSIONS,
    LIST_STORED_PARTS,
    SAMPLE_KEYS,
)
