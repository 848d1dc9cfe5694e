"""The result types of a verification, for one piece and for the whole store."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import NamedTuple


class Kind(Enum):
    """The part of the store that a problem is in."""

    OBJECT = "object"  # bytes of a version or a part are lost
    METADATA = "metadata"  # the SQLite file is damaged or unreadable, or rows contradict each other
    SEGMENT = "segment"  # a segment file or their folder is damaged; its records may be intact
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
        """Returns text such as `object photos/city.jpg, version 0123…: …`: kind, place, problem."""
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
    """The result for one piece of a version whose chunks are checked in several pieces."""

    about: Problem  # names the version; has no description
    is_marked: bool  # whether the version is marked as damaged
    chunks: int  # the number of chunks that were checked
    damaged: int  # the number of damaged chunks among them
    first: str  # the problem of the first damaged chunk, or ""
    version_chunks: int  # the number of chunks of the whole version


@dataclass(kw_only=True)
class Finding:
    """The result of checking one piece."""

    report: Report = field(default_factory=Report)
    part: VersionPart | None = None


def join(
    findings: Iterable[Finding], *, problems: Iterable[Problem], notes: Iterable[str]
) -> Report:
    """Merges findings, `problems` and `notes` into one report, and removes duplicate problems.

    The findings must be in the order of their pieces in the plan. Findings may be missing.
    """
    whole = Report(notes=list(notes))
    findings = list(findings)
    parts: dict[Problem, list[VersionPart]] = {}
    for finding in findings:
        if finding.part is not None:
            parts.setdefault(finding.part.about, []).append(finding.part)
    for finding in findings:
        _add(whole, finding.report)
        if finding.part is not None and finding.part.about in parts:
            _add_version(whole, parts.pop(finding.part.about))
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
    """Adds the result for one version. Parts may be missing: a piece that was not checked has none.

    The version is intact only if all its chunks were checked.
    """
    damaged = sum(part.damaged for part in parts)
    about, count = parts[0].about, parts[0].version_chunks
    if damaged:
        first = next(part.first for part in parts if part.damaged)
        whole.problems.append(replace(about, why=damage_text(damaged, first, count=count)))
    elif all(part.is_marked for part in parts) and sum(part.chunks for part in parts) == count:
        whole.add_whole(about)
