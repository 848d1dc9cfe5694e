"""The rows of the metadata database as typed values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from lakebed.seglake.model import State

OPEN, SEALED = "OPEN", "SEALED"  # states of a segment

TO_BE_WRITTEN, WRITTEN, TO_BE_REMOVED = 0, 1, 2  # states of a manifest file


@dataclass(frozen=True, slots=True)
class VersionRow:
    """The fields of a version that listings need; the rest is in its manifest."""

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
    """A segment. `size` is the durable length so far if OPEN, the length of the file if SEALED."""

    segment_id: str
    state: str  # OPEN or SEALED
    size: int
    footer_checksum: bytes | None
    created_ms: int
    sealed_ms: int | None


class PendingManifest(NamedTuple):
    """A manifest file to be written, or to be removed if `data` is None."""

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
    """A part of an upload. `chunks` is an encoded manifest and `checksums` is JSON."""

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
    """A change in the operation log, for replication. `sequence` is the local order."""

    sequence: int
    hlc: str
    site_id: str
    op: str
    bucket: str
    key: str
    version_id: str
    size: int


class Totals(NamedTuple):
    """The amount of stored data."""

    objects: int  # current objects, as in a listing
    segments: int  # open and sealed
    bytes_live: int  # the size of all versions
    live_manifests: int  # manifests of versions and delete markers
    manifests: int  # the same, plus those whose files must still be removed
