"""The rows of the metadata, as values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from lakebed.seglake.model import State

OPEN, SEALED = "OPEN", "SEALED"  # states of a segment

TO_BE_WRITTEN, WRITTEN, TO_BE_REMOVED = 0, 1, 2  # states of a manifest's file


@dataclass(frozen=True, slots=True)
class VersionRow:
    """What a listing shows of a version."""

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
    """`size` of an OPEN segment is a length that is known to be durable; of a SEALED one all."""

    segment_id: str
    state: str  # OPEN or SEALED
    size: int
    footer_checksum: bytes | None
    created_ms: int
    sealed_ms: int | None


class PendingManifest(NamedTuple):
    """A manifest's file that is to be written, or (without bytes) to be removed."""

    version_id: str
    file_state: int
    data: bytes | None


class UploadRow(NamedTuple):
    """A multipart upload that was begun. `details` is JSON: what its object will be given."""

    upload_id: str
    bucket: str
    key: str
    initiated_ms: int
    content_type: str | None
    details: str


@dataclass(frozen=True, slots=True)
class PartRow:
    """`chunks` are packed, `checksums` are JSON; neither is looked into here."""

    upload_id: str
    number: int
    etag: str
    size: int
    modified_ms: int
    chunks: bytes
    checksums: str


class ApiKeyRow(NamedTuple):
    """An access key. `secret` is sealed, and not looked into here."""

    access_key: str
    secret: bytes
    policy: str
    is_enabled: bool
    inflight_max: int | None
    label: str | None
    created_ms: int
    last_used_ms: int | None


class OplogRow(NamedTuple):
    """A change, as other sites are told of it. `sequence` is the order it happened in here."""

    sequence: int
    hlc: str
    site_id: str
    op: str
    bucket: str
    key: str
    version_id: str
    size: int


class Totals(NamedTuple):
    """How much is stored."""

    objects: int  # that a listing shows
    segments: int  # files, open and sealed
    bytes_live: int  # of all versions that can be read
    live_manifests: int  # of versions that are there, delete markers too
    manifests: int  # the same with those whose files are still to be removed
