"""Marks the objects that a verification found to be damaged: by the writer, which looks itself.

A verification only reads. What it found may be old by the time it is reported: each version is read
again, past every cache, and marked if it is damaged still; the mark of a whole one is cleared.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from lakebed.base.errors import DataError, DiskError, LakebedError, NotFound
from lakebed.base.progress import Progress
from lakebed.seglake.errors import MethodNotAllowed
from lakebed.seglake.lake import Lake
from lakebed.seglake.verification_report import Kind
from lakebed.seglake.verification_report import Report as LakeReport


class NamedVersion(NamedTuple):
    """A version of an object. The id of a version without one is `null`."""

    bucket: str
    key: str
    version_id: str


class MarkReport(NamedTuple):
    """The result of marking; each version is in one of the fields."""

    marked: tuple[NamedVersion, ...] = ()
    whole: tuple[NamedVersion, ...] = ()  # they could be read now, and have no mark
    gone: tuple[NamedVersion, ...] = ()
    failed: tuple[str, ...] = ()  # could not be looked at, and why

    def joined(self, other: MarkReport) -> MarkReport:
        """Merges two reports."""
        return MarkReport(
            self.marked + other.marked,
            self.whole + other.whole,
            self.gone + other.gone,
            self.failed + other.failed,
        )


def versions_to_mark(report: LakeReport) -> list[NamedVersion]:
    """Those with lost bytes, and those whose mark is wrong. A part of an upload has no mark."""
    lost = [one for one in report.problems if one.kind is Kind.OBJECT]
    return [
        NamedVersion(one.bucket, one.key, one.version_id)
        for one in [*lost, *report.whole_again]
        if one.bucket is not None and one.key is not None and one.version_id is not None
    ]


def mark_damaged(lake: Lake, versions: Sequence[NamedVersion], *, progress: Progress) -> MarkReport:
    """`progress` is told how many of how many were looked at."""
    report = MarkReport()
    for count, version in enumerate(versions, start=1):
        report = report.joined(_mark(lake, version))
        progress(count, len(versions))
    return report


def _mark(lake: Lake, version: NamedVersion) -> MarkReport:
    try:
        is_whole = lake.check_version(*version)
    except (NotFound, MethodNotAllowed):
        return MarkReport(gone=(version,))
    except (DataError, DiskError) as error:
        return MarkReport(failed=(_why(version, error),))
    return MarkReport(whole=(version,)) if is_whole else MarkReport(marked=(version,))


def _why(version: NamedVersion, error: LakebedError) -> str:
    return f"{version.bucket}/{version.key}, version {version.version_id}: {error}"
