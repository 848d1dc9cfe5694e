"""All that a bucket has over the wire: versions with their manifests, and parts of uploads.

For readers of the whole, who cut it by a sample of the keys. A page goes on behind the place that
the last one told, and costs what is on it. Manifests are given as they are stored (see
`lakebed.seglake.manifest`).
"""

from __future__ import annotations

from typing import Annotated, Final

from msgspec import Meta, Struct

from lakebed.api.operation import Operation
from lakebed.seglake.stored_rows import PARTS_MAX, VERSIONS_MAX, KeySample, PartPage, StoredVersions

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


class StoredPartsQuery(Struct, frozen=True):
    """Of keys that begin with `prefix` and are behind `after`; with `upload_id` also the uploads to
    that key behind it, and its own parts behind `part`."""

    prefix: str = ""
    after: str = ""
    upload_id: str | None = None
    part: Annotated[int, Meta(ge=0, le=1 << 31)] = 0
    max_parts: Annotated[int, Meta(ge=1, le=PARTS_MAX)] = PARTS_MAX


class SampleQuery(Struct, frozen=True):
    only_current: bool = False  # of objects that are there now, not of all versions


_BUCKET = "/v1/buckets/{bucket}"

LIST_STORED_VERSIONS: Final = Operation(
    "list_stored_versions", "GET", _BUCKET + "/versions",
    "List a page of all versions and delete markers, optionally with their manifests",
    StoredVersions, query=StoredVersionsQuery, tag=_TAG, target="StoredObjects.versions",
    is_repeatable=True,
)  # fmt: skip
LIST_STORED_PARTS: Final = Operation(
    "list_stored_parts", "GET", _BUCKET + "/parts",
    "List a page of the parts of uploads in progress",
    PartPage, query=StoredPartsQuery, tag=_TAG, target="StoredObjects.parts", is_repeatable=True,
)  # fmt: skip
SAMPLE_KEYS: Final = Operation(
    "sample_keys", "GET", "/v1/objects/sample",
    "Sample the distribution of keys, and count the rows",
    KeySample, query=SampleQuery, tag=_TAG, target="StoredObjects.sample", is_repeatable=True,
)  # fmt: skip

OPERATIONS: Final[tuple[Operation[object], ...]] = (
    LIST_STORED_VERSIONS,
    LIST_STORED_PARTS,
    SAMPLE_KEYS,
)
