"""What a verification of a lake found."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum


class Kind(Enum):
    """Of a problem: what it is about."""

    OBJECT = "object"  # bytes of a version or a part are lost
    METADATA = "metadata"  # SQLite's own, or rows that do not agree
    SEGMENT = "segment"
    MANIFEST_FILE = "manifest file"  # the object is whole, `rebuild-index` would not restore it


@dataclass(frozen=True, kw_only=True)
class Problem:
    """Something that is not as it was written."""

    kind: Kind
    why: str
    bucket: str | None = None
    key: str | None = None
    version_id: str | None = None  # as it is told
    upload_id: str | None = None
    part_number: int | None = None
    path: str | None = None


@dataclass(kw_only=True)
class Report:
    """Counts are of what was looked at; notes are of what is odd, and no damage."""

    versions: int = 0  # and delete markers
    parts: int = 0  # of uploads under way
    chunks: int = 0
    bytes: int = 0
    segments: int = 0
    manifest_files: int = 0
    problems: list[Problem] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
