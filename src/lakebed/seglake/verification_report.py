"""The result types of a verification, for one piece and for the whole store."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from enum import Enum
from itertools import groupby
from typing import NamedTuple


class Kind(Enum):
    """The part of the store that a problem is in."""

    OBJECT = "object"  # bytes of a version or a part are lost
    METADATA = "metadata"  # the SQLite file is damaged, or rows contradict each other
    SEGMENT = "segment"
    MANIFEST_FILE = "manifest file"  # objects are intact; only rebuilt metadata would be wrong
    SECRET_KEY = "secret key"  # noqa: S105 - `secret.key`: access keys cannot be used without it


@dataclass(frozen=True, kw_only=True)
class Problem:
    """One problem that a verification found."""

    kind: Kind
    why: str
    bucket: str | None = None
    key: str | None = None
    version_id: str | None = None  # as shown to clients: `null` for a null version
    upload_id: str | None = None
    part_number: int | None = None
    path: str | None = None

    def __str__(self) -> str:
        """Formats the problem as `object photos/city.jpg, version 0123…: …`."""
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
    """The result of a verification: counts of what was checked, problems and notes.

    Notes are about unusual things that are not damage.
    """

    versions: int = 0  # including delete markers
    parts: int = 0  # of uploads in progress
    chunks: int = 0
    bytes: int = 0
    segments: int = 0
    manifest_files: int = 0
    problems: list[Problem] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    whole_again: list[Problem] = field(default_factory=list)  # marked as damaged, but intact

    def add_whole(self, about: Problem) -> None:
        """Records that a version is intact although it is marked as damaged."""
        version_name = f"{about.bucket}/{about.key}, version {about.version_id}"
        self.notes.append(f"{version_name}: marked as damaged, but intact")
        self.whole_again.append(about)


class VersionPart(NamedTuple):
    """The result for some chunks of a version that is checked in several pieces."""

    about: Problem  # names the version; has no description
    is_marked: bool  # whether the version is marked as damaged
    chunks: int
    damaged: int
    first: str  # the problem of the first damaged chunk


@dataclass(kw_only=True)
class Finding:
    """The result of checking one piece."""

    report: Report = field(default_factory=Report)
    part: VersionPart | None = None


def join(
    findings: Iterable[Finding], *, problems: Iterable[Problem], notes: Iterable[str]
) -> Report:
    """Merges findings into one report, and removes duplicate problems.

    The findings must be in the order of their pieces in the plan.
    """
    whole = Report(notes=list(notes))
    for part, group in groupby(findings, key=lambda finding: finding.part and finding.part.about):
        members = list(group)
        for finding in members:
            _add(whole, finding.report)
        if part is not None:
            _add_version(whole, [finding.part for finding in members if finding.part is not None])
    whole.problems = list(dict.fromkeys([*whole.problems, *problems]))
    return whole


def damage_text(damaged: int, first: str, *, count: int) -> str:
    """Describes the damage of a version with `count` chunks, of which `damaged` are damaged.

    `first` describes the first of them.
    """
    if damaged == count == 1:
        return first
    return f"{damaged} of {count} chunks are damaged; the first: {first}"


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
