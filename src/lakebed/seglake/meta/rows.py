"""The rows of the metadata database as typed values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from lakebed.seglake.model import State

OPEN, SEALED = "OPEN", "SEALED"  # states of a segment

TO_BE_WRITTEN, WRITTEN, TO_BE_REMOVED = 0, 1, 2  # states of a manifest file


@dataclass(frozen=True, slots=True)
class VersionRow:
    """A version or delete marker, with the fields that listings need.

    The other fields are only in its manifest.
    """

    version_id: str
    bucket: str
    key: str
    state: State
    is_null: bool
    etag: str
    size: int
    content_type: str | None
    modified_ms: int
    hlc: str
    site_id: str


class SegmentRow(NamedTuple):
    """A segment. `size` is the length of the file if SEALED, or of its durable part if OPEN."""

    segment_id: str
    state: str  # OPEN or SEALED
    size: int
    footer_checksum: bytes | None
    created_ms: int
    sealed_ms: int | None


class PendingManifest(NamedTuple):
    """The manifest of a version, and the state of its manifest file.

    `data` is None if the version was removed and the file must be removed too.
    """

    version_id: str
    file_state: int
    data: bytes | None


class UploadRow(NamedTuple):
    """A multipart upload in progress. `details` is JSON with the headers of the future object."""

    upload_id: str
    bucket: str
    key: str
    initiated_ms: int
    content_type: str | None
    details: str


@dataclass(frozen=True, slots=True)
class PartRow:
    """A part of a multipart upload. `chunks` is an encoded manifest, and `checksums` is JSON."""

    upload_id: str
    number: int
    etag: str
    size: int
    modified_ms: int
    chunks: bytes
    checksums: str


class ApiKeyRow(NamedTuple):
    """An access key. `secret` is encrypted."""

    access_key: str
    secret: bytes
    policy: str
    is_enabled: bool
    inflight_max: int | None
    label: str | None
    created_ms: int
    last_used_ms: int | None


class OplogRow(NamedTuple):
    """An entry of the operation log, for replication. `sequence` is its position in the log."""

    sequence: int
    hlc: str
    site_id: str
    op: str
    bucket: str
    key: str
    version_id: str
    size: int


class Totals(NamedTuple):
    """The numbers of objects, segments and manifests, and the total size of all versions."""

    objects: int  # current objects, as in a listing
    segments: int  # open and sealed
    bytes_live: int  # the size of all versions
    live_manifests: int  # manifests of versions and delete markers
    manifests: int  # the same, plus those whose files must still be removed
