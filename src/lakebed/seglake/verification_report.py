"""What a verification of a lake found, in a piece of it, and in all of them. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from enum import Enum
from itertools import groupby
from typing import NamedTuple


class Kind(Enum):
    """Of a problem: what it is about."""

    OBJECT = "object"  # bytes of a version or a part are lost
    METADATA = "metadata"  # SQLite's own, or rows that do not agree
    SEGMENT = "segment"
    MANIFEST_FILE = "manifest file"  # the object is whole, `rebuild-index` would not restore it
    SECRET_KEY = "secret key"  # noqa: S105 - `secret.key`: access keys cannot be used without it


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

    def __str__(self) -> str:
        """`object photos/city.jpg, version 0123…: …`"""
        subject = ""
        if self.key is not None:
            subject = f"{self.bucket}/{self.key}"
        if self.version_id is not None:
            subject += f", version {self.version_id}"
        if self.upload_id is not None:
            subject += f", upload {self.upload_id}, part {self.part_number}"
        path = self.path or ""
        if path and not self.why.startswith(path):
            subject = f"{path} of {subject}" if subject else path
        place = f"{subject}: " if subject else ""
        return f"{self.kind.value} {place}{self.why}"


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
    whole_again: list[Problem] = field(default_factory=list)  # marked as damaged, and are not

    def add_whole(self, about: Problem) -> None:
        """Of a version that is marked as damaged, and is not."""
        where = f"{about.bucket}/{about.key}, version {about.version_id}"
        self.notes.append(f"{where}: it is marked as damaged, and is whole")
        self.whole_again.append(about)


class VersionPart(NamedTuple):
    """What was found in some chunks of a version that is checked in parts."""

    about: Problem  # whose it would be
    is_marked: bool  # as damaged
    chunks: int
    damaged: int
    first: str  # what is wrong with the first that is damaged


@dataclass(kw_only=True)
class Finding:
    """Of one piece."""

    report: Report = field(default_factory=Report)
    part: VersionPart | None = None


def join(found: Iterable[Finding], *, problems: Iterable[Problem], notes: Iterable[str]) -> Report:
    """One report of all pieces, in their order. What several told of the metadata is told once."""
    whole = Report(notes=list(notes))
    for part, group in groupby(found, key=lambda one: one.part and one.part.about):
        members = list(group)
        for one in members:
            _add(whole, one.report)
        if part is not None:
            _add_version(whole, [one.part for one in members if one.part is not None])
    whole.problems = list(dict.fromkeys([*whole.problems, *problems]))
    return whole


def damage_text(damaged: int, first: str, *, count: int) -> str:
    """Of a version with so many chunks."""
    if damaged == count == 1:
        return first
    return f"{damaged} of {count} chunks are lost, the first: {first}"


def _add(whole: Report, report: Report) -> None:
    for name in ("versions", "parts", "chunks", "bytes", "segments", "manifest_files"):
        setattr(whole, name, getattr(whole, name) + getattr(report, name))
    whole.problems += report.problems
    whole.notes += report.notes
    whole.whole_again += report.whole_again


def _add_version(whole: Report, parts: list[VersionPart]) -> None:
    damaged = sum(part.damaged for part in parts)
    about = parts[0].about
    if damaged:
        first = next(part.first for part in parts if part.damaged)
        why = damage_text(damaged, first, count=sum(part.chunks for part in parts))
        whole.problems.append(replace(about, why=why))
    elif all(part.is_marked for part in parts):
        whole.add_whole(about)
