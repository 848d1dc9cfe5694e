"""The job `verify`: checks the checksums of a store in many tasks.

    report = verify(spark, Backend(path=root))

If the backend is a path, the tasks read the files: logs in all tiers with their manifest logs,
topics, consumer groups and objects. The findings are the same as those of `verify_store`. Each task
checks several pieces, such as segments; all tasks read about the same number of bytes. Damage is
reported; it does not make a task fail. For an endpoint, which gives access to less, see
`verify_remote`.

Unless that is turned off, objects that have lost bytes are marked as damaged, and the marks of
objects that are whole again are removed. This is done by the process that has the store open, or by
this process if there is none; that process checks the objects again first. Parts of multipart
uploads cannot be marked.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from lakebed.base.units import MIB
from lakebed.spark.backends import Backend
from lakebed.spark.jobs.report import Report
from lakebed.spark.jobs.tasks import grouped, in_tasks
from lakebed.spark.jobs.verify_remote import UNSEEN, check_remote
from lakebed.spark.jobs.watcher import NullWatcher, Watcher
from lakebed.spark.query_watch import watched
from lakebed.store.damage_marks import MarkReport, versions_to_mark
from lakebed.store.read_only import ReadOnlyStore
from lakebed.store.store_check import (
    Finding,
    Piece,
    StoreCheck,
    StorePlan,
    StoreReport,
    join_store,
    plan_store,
)
from lakebed.store.store_check_lines import mark_lines, report_lines

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NAME = "verify"
PIECE_BYTES = 64 * MIB  # for objects


class CheckedStore(NamedTuple):
    """The result of checking a store: the findings, and about how many bytes were read."""

    report: StoreReport
    size_bytes: int
    notes: tuple[str, ...] = ()


def verify(
    spark: SparkSession,
    backend: Backend,
    *,
    tier2: bool = True,
    mark: bool = True,
    watcher: Watcher | None = None,
) -> Report:
    """Checks the store, and updates the damage marks of objects if `mark` is set.

    Through an endpoint only part of the store is checked; see `verify_remote`. With `tier2`, the
    segments of logs in Tier 2 are read too. The report's `is_good` is False if damage was found or
    is on record, or if a part of the store could not be checked.
    """
    watcher = watcher or NullWatcher()
    checked = check(spark, backend, tier2=tier2, watcher=watcher)
    versions = versions_to_mark(checked.report.objects) if mark else []
    marks = MarkReport()
    if versions:
        from lakebed.spark.sinks.settings import writing

        watcher.begin("mark", total=len(versions), unit="objects")
        with writing(backend) as store:
            marks = store.maintenance.mark_objects(
                versions, progress=lambda done, _total: watcher.advance(done)
            )
    return _report(checked, marks)


def check(
    spark: SparkSession,
    backend: Backend,
    *,
    tier2: bool = True,
    piece_bytes: int = PIECE_BYTES,
    watcher: Watcher | None = None,
) -> CheckedStore:
    """Checks the store as `verify` does, without marking damaged objects."""
    watcher = watcher or NullWatcher()
    if not backend.path:
        report, size_bytes = check_remote(spark, backend, tier2=tier2, watcher=watcher)
        return CheckedStore(report, size_bytes, (f"note: {UNSEEN}",))
    watcher.begin("list")
    listing = partial(plan_in_task, tier2, piece_bytes)
    [plan] = in_tasks(spark, listing, [backend.path])
    pieces = plan.pieces()
    size_bytes = sum(plan.sizes)
    groups = grouped(plan.sizes)
    inputs = [pieces[group.start : group.stop] for group in groups]
    with watched(spark, watcher, "verify", total=len(pieces), size_bytes=size_bytes, unit="pieces"):
        outputs = in_tasks(spark, partial(check_in_task, backend.path), inputs)
    findings = [finding for output in outputs for finding in output]
    return CheckedStore(join_store(plan, findings), size_bytes)


# These functions run in tasks.


def plan_in_task(tier2: bool, piece_bytes: int, path: str) -> StorePlan:
    """Lists what to check. Runs in a task, because with Spark Connect only tasks can read the
    files.
    """
    with ReadOnlyStore(path) as store:
        return plan_store(store, tier2=tier2, bytes_max=piece_bytes)


def check_in_task(path: str, pieces: Sequence[Piece]) -> list[Finding]:
    with ReadOnlyStore(path) as store, StoreCheck(store) as checking:
        return [checking.run(piece) for piece in pieces]


def _report(checked: CheckedStore, marks: MarkReport) -> Report:
    report, objects = checked.report, checked.report.objects
    logs = [log.report for log in report.logs]
    topics = [topic.report for topic in report.topics]
    records = sum(log.records for log in logs) + sum(topic.records for topic in topics)
    return Report(
        NAME,
        row_count=records,
        size_bytes=checked.size_bytes,
        facts={
            "logs": len(logs),
            "topics": len(topics),
            "segments": sum(log.segments for log in logs) + sum(topic.segments for topic in topics),
            "records": records,
            "warm_files": sum(log.warm_files for log in logs),
            "cold_objects": sum(log.objects for log in logs),
            "groups": report.groups.groups,
            "versions": objects.versions,
            "chunks": objects.chunks,
            "chunk_bytes": objects.bytes,
            "problems": report.problem_count,
            "unchecked": len(report.unchecked),
            "marked": len(marks.marked),
        },
        lines=(*mark_lines(marks), *checked.notes, *report_lines(report)),
        is_good=report.is_good,
    )
