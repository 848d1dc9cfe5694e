# Made by `python -m tools.asynced` of `src/lakebed/client/maintenance.py`: edit that.
"""Long work in a store that another process has open: as `lakebed.store.maintenance.Maintenance`.

Each call starts a job there and waits for its end. A caller that is interrupted cancels it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

from lakebed.aio.client.caller import Caller
from lakebed.aio.client.jobs import run_job
from lakebed.aof.tiers.migration import MigrationReport
from lakebed.api import admin as wire
from lakebed.api.job_reports import report_of
from lakebed.api.jobs import JOBS, VERSIONS_MAX
from lakebed.base.errors import Busy
from lakebed.base.progress import Progress, no_progress
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


class AsyncMaintenance:
    """For one event loop."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller

    # Tiers of a log.

    async def upload(
        self,
        log: str,
        *,
        segments: Sequence[int] | None = None,
        progress: Progress = no_progress,
    ) -> Outcome:
        """Compress segments and put them into Tier 2."""
        return await self._run("aof-upload", Outcome, progress, log=log, segments=segments)

    async def retry_upload(
        self,
        log: str,
        *,
        segments: Sequence[int] | None = None,
        progress: Progress = no_progress,
    ) -> Outcome:
        """Upload segments whose upload failed for good."""
        return await self._run("aof-retry-upload", Outcome, progress, log=log, segments=segments)

    async def evict(
        self,
        log: str,
        *,
        segments: Sequence[int] | None = None,
        warm: bool = False,
        progress: Progress = no_progress,
    ) -> Outcome:
        """Remove segments that Tier 2 has from Tier 0; with `warm` from Tier 1 as well."""
        return await self._run(
            "aof-evict", Outcome, progress, log=log, segments=segments, warm=warm
        )

    async def hydrate(
        self,
        log: str,
        *,
        segments: Sequence[int] | None = None,
        progress: Progress = no_progress,
    ) -> Outcome:
        """Bring segments back into Tier 0."""
        return await self._run("aof-hydrate", Outcome, progress, log=log, segments=segments)

    async def repair_tier2(self, log: str, *, progress: Progress = no_progress) -> Outcome:
        """Upload objects again that are missing or damaged."""
        return await self._run("aof-repair-tier2", Outcome, progress, log=log)

    async def migrate_tier2(
        self,
        log: str,
        *,
        address: str | None = None,
        delete: bool = False,
        progress: Progress = no_progress,
    ) -> MigrationReport:
        """Copy a log's objects to another Tier 2 and use that."""
        arguments = {"log": log, "address": address, "delete": delete}
        return await self._run("aof-migrate-tier2", MigrationReport, progress, **arguments)

    # Verification and repair.

    async def verify_log(
        self, log: str, *, tier2: bool = False, progress: Progress = no_progress
    ) -> LogReport:
        """Read all of a log, with `tier2` its objects as well."""
        return await self._run("aof-verify", LogReport, progress, log=log, tier2=tier2)

    async def verify_manifest(
        self, log: str, *, progress: Progress = no_progress
    ) -> ManifestReport:
        """Read the manifest log of a log and compare it with the segments and their copies."""
        return await self._run("manifest-verify", ManifestReport, progress, log=log)

    async def repair_log(
        self, log: str, *, dry_run: bool = False, progress: Progress = no_progress
    ) -> RepairReport:
        return await self._run("aof-repair", RepairReport, progress, log=log, dry_run=dry_run)

    async def verify_topic(self, topic: str, *, progress: Progress = no_progress) -> TopicReport:
        return await self._run("topic-verify", TopicReport, progress, topic=topic)

    async def repair_topic(
        self, topic: str, *, dry_run: bool = False, progress: Progress = no_progress
    ) -> TopicRepair:
        return await self._run("topic-repair", TopicRepair, progress, topic=topic, dry_run=dry_run)

    async def verify_objects(
        self, *, bucket: str | None = None, prefix: str = "", progress: Progress = no_progress
    ) -> LakeReport:
        """Read all objects, or those of a bucket whose keys begin with `prefix`.

        `progress` gets the bytes that were read; how many there are is not known, and given as 0.
        """
        return await self._run("objects-verify", LakeReport, progress, bucket=bucket, prefix=prefix)

    async def verify_store(
        self, *, tier2: bool = True, progress: Progress = no_progress
    ) -> StoreReport:
        """Read all logs, topics, groups and objects; with `tier2` the objects of logs as well."""
        return await self._run("store-verify", StoreReport, progress, tier2=tier2)

    async def mark_objects(
        self, versions: Sequence[NamedVersion], *, progress: Progress = no_progress
    ) -> MarkReport:
        """Read versions again: mark the damaged ones, clear the mark of the others."""
        report = MarkReport()
        for start in range(0, len(versions), VERSIONS_MAX):
            some = versions[start : start + VERSIONS_MAX]
            named = [list(version) for version in some]
            report = report.joined(
                await self._run("objects-mark", MarkReport, no_progress, versions=named)
            )
            progress(start + len(some), len(versions))
        return report

    async def _run(
        self, kind: str, report: type[Report], progress: Progress, **arguments: Any
    ) -> Report:
        assert JOBS[kind].report is report
        named = {name: value for name, value in arguments.items() if value is not None}
        try:
            return report_of(report, await run_job(self._caller, kind, named, progress))
        except Busy as error:
            if type(error) is not Busy or "end that program" in str(error):
                raise
            process_id = (await self._caller.call(wire.STATE)).process_id
            raise Busy(
                f"{error}; the program that has the store open (process {process_id}) is in the "
                "way: end it, or try again later"
            ) from None
