"""The calls that list everything in a bucket: versions with their manifests, and parts of uploads.

They are for programs that read whole buckets in parallel. Such a program samples the keys and
divides the work at the sampled keys. A page begins after the last item of the previous page, and
takes time only for its own items. Manifests are returned as they are stored (see
`lakebed.seglake.manifest`).
"""

from __future__ import annotations

from typing import Annotated, Final

from msgspec import Meta, Struct

from lakebed.api.operation import Operation
from lakebed.seglake.stored_rows import PARTS_MAX, VERSIONS_MAX, KeySample, PartPage, StoredVersions

_TAG = "objects"


class StoredVersionsQuery(Struct, frozen=True):
    """Selects versions of keys that begin with `prefix` and sort after `after`.

    `hlc` and `site_id`, if given, identify a version of the key `after`: versions of that key that
    are older than this version are selected too. With `only_current`, selects only the newest
    version of each key, and no delete markers.
    """

    prefix: str = ""
    after: str = ""
    hlc: str | None = None
    site_id: str = ""
    max_versions: Annotated[int, Meta(ge=1, le=VERSIONS_MAX)] = VERSIONS_MAX
    manifests: bool = False
    only_current: bool = False


class StoredPartsQuery(Struct, frozen=True):
    """Selects parts of unfinished uploads to keys that begin with `prefix` and sort after `after`.

    `upload_id`, if given, identifies an upload to the key `after`: the parts of this upload after
    number `part`, and all parts of later uploads to that key, are selected too.
    """

    prefix: str = ""
    after: str = ""
    upload_id: str | None = None
    part: Annotated[int, Meta(ge=0, le=1 << 31)] = 0
    max_parts: Annotated[int, Meta(ge=1, le=PARTS_MAX)] = PARTS_MAX


class SampleQuery(Struct, frozen=True):
    only_current: bool = False  # sample the keys of current objects, not of all versions


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
    "Sample the distribution of keys, and estimate the number of versions",
    KeySample, query=SampleQuery, tag=_TAG, target="StoredObjects.sample", is_repeatable=True,
)  # fmt: skip

OPERATIONS: Final[tuple[Operation[object], ...]] = (
    LIST_STORED_VERSIONS,
    LIST_STORED_PARTS,
    SAMPLE_KEYS,
)
