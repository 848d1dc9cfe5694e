"""Runs long-running work in a remote store, like `lakebed.store.maintenance` in an open one.

Each method starts a job in the remote process and waits until it ends. (`mark_objects` may start
several, one after another.) See `run_job` for what happens if the wait ends early.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from lakebed.aof.tiers.migration import MigrationReport
from lakebed.api import admin as wire
from lakebed.api.job_reports import report_of
from lakebed.api.jobs import JOBS, VERSIONS_MAX
from lakebed.api.problems import error_of
from lakebed.base.errors import Busy, LakebedError
from lakebed.base.progress import Progress, no_progress
from lakebed.client.caller import Caller
from lakebed.seglake.verification_report import Report as LakeReport
from lakebed.store.damage_marks import MarkReport, NamedVersion
from lakebed.store.log_check import LogReport
from lakebed.store.manifest_verification import ManifestReport
from lakebed.store.repair import RepairReport
from lakebed.store.store_check import StoreReport
from lakebed.store.tier_moves import Outcome
from lakebed.store.topic_repair import TopicRepair
from lakebed.store.topic_verification import TopicReport

Report = TypeVar("Report")

_WAIT_MS = 500  # between two progress reports


class RemoteMaintenance:
    """Runs long-running work, such as a verification, in a remote store. Thread-safe.

    `segments` are the ids of the segments to move. They are checked before anything is moved: if
    one of them does not allow the move (because it is not sealed, for example), the call raises an
    error and moves none. If a move fails later, the call raises no error: the segment is in
    `failed` of the outcome, and the others are moved. An error that concerns all segments ends the
    call early, and is in `stopped_by`. By default all sealed segments that allow the move are
    moved.
    """

    def __init__(self, caller: Caller) -> None:
        self._caller = caller

    # Tiers of a log.

    def upload(
        self,
        log: str,
        *,
        segments: Sequence[int] | None = None,
        progress: Progress = no_progress,
    ) -> Outcome:
        """Compresses segments and uploads them to Tier 2."""
        return self._run("aof-upload", Outcome, progress, log=log, segments=segments)

    def retry_upload(
        self,
        log: str,
        *,
        segments: Sequence[int] | None = None,
        progress: Progress = no_progress,
    ) -> Outcome:
        """Uploads segments to Tier 2 again: by default, all segments whose last upload failed."""
        return self._run("aof-retry-upload", Outcome, progress, log=log, segments=segments)

    def evict(
        self,
        log: str,
        *,
        segments: Sequence[int] | None = None,
        warm: bool = False,
        progress: Progress = no_progress,
    ) -> Outcome:
        """Removes the Tier 0 copies of segments that are in Tier 2, and with `warm` also their Tier
        1 copies."""
        return self._run("aof-evict", Outcome, progress, log=log, segments=segments, warm=warm)

    def hydrate(
        self,
        log: str,
        *,
        segments: Sequence[int] | None = None,
        progress: Progress = no_progress,
    ) -> Outcome:
        """Copies segments from Tier 1 or 2 back into Tier 0."""
        return self._run("aof-hydrate", Outcome, progress, log=log, segments=segments)

    def repair_tier2(self, log: str, *, progress: Progress = no_progress) -> Outcome:
        """Checks the objects of a log in Tier 2. Uploads those again, from local copies, that are
        missing or have a wrong size or recorded checksum. Does not read the content of objects."""
        return self._run("aof-repair-tier2", Outcome, progress, log=log)

    def migrate_tier2(
        self,
        log: str,
        *,
        address: str | None = None,
        delete: bool = False,
        progress: Progress = no_progress,
    ) -> MigrationReport:
        """Copies the objects of a log in Tier 2 to another Tier 2, which the log then uses. Raises
        `Busy` if the log is open.

        `address` is by default the Tier 2 of new logs. With `delete`, the objects at the old
        address are then deleted.
        """
        arguments = {"log": log, "address": address, "delete": delete}
        return self._run("aof-migrate-tier2", MigrationReport, progress, **arguments)

    # Verification and repair.

    def verify_log(
        self, log: str, *, tier2: bool = False, progress: Progress = no_progress
    ) -> LogReport:
        """Reads and verifies all segments of a log that are on the local disk, and with `tier2`
        also the objects in Tier 2."""
        return self._run("aof-verify", LogReport, progress, log=log, tier2=tier2)

    def verify_manifest(self, log: str, *, progress: Progress = no_progress) -> ManifestReport:
        """Verifies the manifest log of a log, and compares it with the log's segments and their
        copies."""
        return self._run("manifest-verify", ManifestReport, progress, log=log)

    def repair_log(
        self, log: str, *, dry_run: bool = False, progress: Progress = no_progress
    ) -> RepairReport:
        return self._run("aof-repair", RepairReport, progress, log=log, dry_run=dry_run)

    def verify_topic(self, topic: str, *, progress: Progress = no_progress) -> TopicReport:
        return self._run("topic-verify", TopicReport, progress, topic=topic)

    def repair_topic(
        self, topic: str, *, dry_run: bool = False, progress: Progress = no_progress
    ) -> TopicRepair:
        return self._run("topic-repair", TopicRepair, progress, topic=topic, dry_run=dry_run)

    def verify_objects(
        self, *, bucket: str | None = None, prefix: str = "", progress: Progress = no_progress
    ) -> LakeReport:
        """Verifies all objects, or the objects of `bucket` whose keys begin with `prefix`. Raises
        `InputError` if there is a `prefix` but no `bucket`.

        `progress` is called with the number of bytes read so far, and 0 as the total, which is not
        known.
        """
        return self._run("objects-verify", LakeReport, progress, bucket=bucket, prefix=prefix)

    def verify_store(self, *, tier2: bool = True, progress: Progress = no_progress) -> StoreReport:
        """Verifies all logs, topics, groups and objects, and with `tier2` the objects of logs in
        Tier 2 too."""
        return self._run("store-verify", StoreReport, progress, tier2=tier2)

    def mark_objects(
        self, versions: Sequence[NamedVersion], *, progress: Progress = no_progress
    ) -> MarkReport:
        """Verifies object versions again: marks those that are damaged, and removes the marks of
        those that are not."""
        report = MarkReport()
        for start in range(0, len(versions), VERSIONS_MAX):
            part = versions[start : start + VERSIONS_MAX]
            named = [list(version) for version in part]
            report = report.joined(
                self._run("objects-mark", MarkReport, no_progress, versions=named)
            )
            progress(start + len(part), len(versions))
        return report

    def _run(self, kind: str, report: type[Report], progress: Progress, **arguments: Any) -> Report:
        assert JOBS[kind].report is report
        passed = {name: value for name, value in arguments.items() if value is not None}
        try:
            return report_of(report, run_job(self._caller, kind, passed, progress))
        except Busy as error:
            if type(error) is not Busy or "end that program" in str(error):
                raise
            process_id = self._caller.call(wire.STATE).process_id
            raise Busy(
                f"{error}; process {process_id} has the store open: end that program, or try again "
                "later"
            ) from None


def run_job(
    caller: Caller, kind: str, arguments: Mapping[str, Any], progress: Progress = no_progress
) -> dict[str, Any]:
    """Runs a job on the server, and returns its result or raises its error.

    If the wait is interrupted, for example by a `KeyboardInterrupt`, the job is cancelled. If it
    ends with a `LakebedError` instead, for example because the connection is lost, the job
    continues.
    """
    body = wire.StartJob(kind=kind, arguments=dict(arguments))
    state = caller.call(wire.START_WORK, body=body)
    names = {"work": state.work_id}
    try:
        while state.state == "running":
            progress(state.done, state.total)
            query = wire.WaitQuery(wait_ms=_WAIT_MS)
            state = caller.call(wire.GET_WORK, names, query=query, wait_s=_WAIT_MS / 1000)
    except LakebedError:
        raise
    except BaseException:
        with contextlib.suppress(LakebedError):
            caller.call(wire.CANCEL_WORK, names)
        raise
    progress(state.done, state.total)
    return _outcome(state)


def _outcome(state: wire.JobState) -> dict[str, Any]:
    if state.state == "done":
        return state.result or {}
    if state.problem is not None:
        raise error_of(state.problem)
    if state.state == "cancelled":
        raise Busy(f"{state.kind}: the job was cancelled before it ended")
    raise LakebedError(f"{state.kind}: the job failed, and the server reported no reason")
