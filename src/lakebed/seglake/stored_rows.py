"""What pages of all that a bucket has consist of: versions and parts, as the metadata has them.

Manifests are the bytes that are stored (see `lakebed.seglake.manifest`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from lakebed.seglake.meta.rows import PartRow, VersionRow

VERSIONS_MAX = 1000  # of a page
PARTS_MAX = 1000


class VersionPlace(NamedTuple):
    """The place of a version that was listed, with all before it."""

    key: str
    hlc: str
    site_id: str


@dataclass(frozen=True, slots=True)
class StoredVersion:
    """A version, or a delete marker. Its manifest is there if it was asked for, and it has one."""

    row: VersionRow
    is_latest: bool
    file_state: int | None = None  # of its manifest: 0 to be written, 1 written, 2 to be removed
    manifest: bytes | None = None


@dataclass(frozen=True, slots=True)
class StoredVersions:
    """A page, by key and then the newest first."""

    versions: list[StoredVersion]
    has_more: bool  # after the last of them


@dataclass(frozen=True, slots=True)
class PartPlace:
    """The place of a part that was listed, with all before it; number 0 is before the first."""

    key: str
    upload_id: str
    number: int


@dataclass(frozen=True, slots=True)
class ListedPart:
    """A part of an upload that is under way."""

    key: str
    row: PartRow


@dataclass(frozen=True, slots=True)
class PartPage:
    """A page, by key, upload and number. It may have no parts, and yet there are more."""

    parts: list[ListedPart]
    next: PartPlace | None  # where the next page starts; None if there is none


@dataclass(frozen=True, slots=True, order=True)
class SampledKey:
    bucket: str
    key: str


@dataclass(frozen=True, slots=True)
class KeySample:
    """Some hundred keys, in order; a key is repeated as often as it was met."""

    keys: list[SampledKey]
    row_count: int  # of the whole store, about
