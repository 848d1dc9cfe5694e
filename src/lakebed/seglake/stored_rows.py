"""The types of the entries in `stored_pages`: versions and parts as stored in the metadata.

Manifests are encoded as in `lakebed.seglake.manifest`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from lakebed.seglake.meta.rows import PartRow, VersionRow

VERSIONS_MAX = 1000  # per page
PARTS_MAX = 1000


class VersionPlace(NamedTuple):
    """The position of a version in the listing; the next page starts after it."""

    key: str
    hlc: str
    site_id: str


@dataclass(frozen=True, slots=True)
class StoredVersion:
    """A version or a delete marker, with its manifest if that was requested and exists."""

    row: VersionRow
    is_latest: bool
    file_state: int | None = None  # manifest file: 0 to be written, 1 written, 2 to be removed
    manifest: bytes | None = None


@dataclass(frozen=True, slots=True)
class StoredVersions:
    """A page of versions, in order of key, and newest first within a key."""

    versions: list[StoredVersion]
    has_more: bool  # whether more versions follow


@dataclass(frozen=True, slots=True)
class PartPlace:
    """The position of a part in the listing. Number 0 is the position before the first part."""

    key: str
    upload_id: str
    number: int


@dataclass(frozen=True, slots=True)
class ListedPart:
    """A part of an upload in progress."""

    key: str
    row: PartRow


@dataclass(frozen=True, slots=True)
class PartPage:
    """A page of parts, in order of key, upload and number.

    It may be empty although more pages follow.
    """

    parts: list[ListedPart]
    next: PartPlace | None  # the position after which the next page starts; None on the last page


@dataclass(frozen=True, slots=True, order=True)
class SampledKey:
    bucket: str
    key: str


@dataclass(frozen=True, slots=True)
class KeySample:
    """Up to a few hundred sampled keys, sorted. A key is repeated for each sampled version."""

    keys: list[SampledKey]
    row_count: int  # estimated number of versions (or of current objects) in the whole store
