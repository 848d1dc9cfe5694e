"""Marks the object versions that a verification found to be damaged.

A verification only reads, and its findings may be out of date when they are reported. So the
process that has the store open for writing reads each version again, from the disk and not from its
cache. It marks the versions that are still damaged, and clears the marks of those that are whole.
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
    """Identifies one version of an object. `version_id` is `null` for a null version, as in S3."""

    bucket: str
    key: str
    version_id: str


class MarkReport(NamedTuple):
    """The result of `mark_damaged`: the versions, grouped by outcome."""

    marked: tuple[NamedVersion, ...] = ()
    whole: tuple[NamedVersion, ...] = ()  # read without error now, or replaced meanwhile
    gone: tuple[NamedVersion, ...] = ()  # deleted meanwhile, or a delete marker
    failed: tuple[str, ...] = ()  # versions that could not be read, each with the reason

    def joined(self, other: MarkReport) -> MarkReport:
        """Returns a report with the versions of both reports."""
        return MarkReport(
            self.marked + other.marked,
            self.whole + other.whole,
            self.gone + other.gone,
            self.failed + other.failed,
        )


def versions_to_mark(report: LakeReport) -> list[NamedVersion]:
    """Returns the versions that a verification found to be damaged, or marked although whole.

    Parts of unfinished uploads are left out, because a part cannot be marked.
    """
    lost = [problem for problem in report.problems if problem.kind is Kind.OBJECT]
    return [
        NamedVersion(problem.bucket, problem.key, problem.version_id)
        for problem in [*lost, *report.whole_again]
        if problem.bucket is not None and problem.key is not None and problem.version_id is not None
    ]


def mark_damaged(lake: Lake, versions: Sequence[NamedVersion], *, progress: Progress) -> MarkReport:
    """Reads each version again; marks it if it is damaged, or clears its mark if it is whole.

    Calls `progress` with the number of versions done so far, and the number of all versions.
    """
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
