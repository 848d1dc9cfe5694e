"""Long-running work on an open store: moving segments between tiers, verification and repair.

    store.maintenance.verify_log("orders", progress=lambda done, total: ...)

All of it is safe while the store is in use; work that would not be safe is refused:
- Segments are moved by the log's own tiering, which runs one operation on a segment at a time.
- A log is verified up to its durable end. Repairing a log copies damaged bytes to the quarantine
  and never removes them from the log. Torn bytes were removed when the log was opened; the report
  has their number.
- `mark_objects` reads again the object versions that a verification found to be damaged, and marks
  those that still are.
- A topic can be repaired, and a log's Tier 2 migrated, only while the topic or log is not open;
  otherwise `Busy` is raised. As an exception, a topic of which a partition cannot be opened is
  closed and repaired.

If `progress` raises an exception, the work ends between two steps. Completed steps stay done: a
move or a migration that is started again skips them. Verifications and repairs start over.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from lakebed.aof.paths import check_log_name
from lakebed.base.progress import Progress, no_progress
from lakebed.store.logs import require_log

# The methods import what they need: most programs call none of them.
if TYPE_CHECKING:
    from lakebed.aof.tiers.migration import MigrationReport
    from lakebed.seglake.verification_report import Report as LakeReport
    from lakebed.store.damage_marks import MarkReport, NamedVersion
    from lakebed.store.log_check import LogReport
    from lakebed.store.manifest_verification import ManifestReport
    from lakebed.store.repair import RepairReport
    from lakebed.store.store import Store
    from lakebed.store.store_check import StoreReport
    from lakebed.store.tier_moves import Outcome, TierMoves
    from lakebed.store.topic_repair import TopicRepair
    from lakebed.store.topic_verification import TopicReport


class Maintenance:
    """Runs maintenance on one store. Thread-safe.

    Where a method has a parameter `segments`, it takes the ids of the segments to work on; None
    means all sealed segments of the log that need the work and can be moved.
    """

    def __init__(self, store: Store) -> None:
        self._store = store

    # Tiers of a log.

    def upload(
        self,
        log: str,
        *,
        segments: Sequence[int] | None = None,
        progress: Progress = no_progress,
    ) -> Outcome:
        """Compress segments and upload them to Tier 2."""
        return self._moves(log, progress).upload(segments)

    def retry_upload(
        self,
        log: str,
        *,
        segments: Sequence[int] | None = None,
        progress: Progress = no_progress,
    ) -> Outcome:
        """Upload segments to Tier 2, by default all whose last upload failed."""
        return self._moves(log, progress).retry_upload(segments)

    def evict(
        self,
        log: str,
        *,
        segments: Sequence[int] | None = None,
        warm: bool = False,
        progress: Progress = no_progress,
    ) -> Outcome:
        """Remove segments from Tier 0, and with `warm` also from Tier 1, if Tier 2 has them."""
        return self._moves(log, progress).evict(segments, warm=warm)

    def hydrate(
        self,
        log: str,
        *,
        segments: Sequence[int] | None = None,
        progress: Progress = no_progress,
    ) -> Outcome:
        """Bring segments back into Tier 0, from Tier 1 or Tier 2."""
        return self._moves(log, progress).hydrate(segments)

    def repair_tier2(self, log: str, *, progress: Progress = no_progress) -> Outcome:
        """Check a log's objects in Tier 2, and upload again those that are missing or wrong.

        An object is wrong if its size or its recorded checksum is; its content is not read. It can
        be uploaded again only if a local copy of its segment exists.
        """
        return self._moves(log, progress).repair()

    def migrate_tier2(
        self,
        log: str,
        *,
        address: str | None = None,
        delete: bool = False,
        progress: Progress = no_progress,
    ) -> MigrationReport:
        """Copy a log's Tier 2 objects to another Tier 2, which the log uses from then on.

        The default for `address` is the Tier 2 of new logs. With `delete`, the objects at the old
        address are deleted afterwards. Raises `Busy` if the log is open. See
        `AofManager.migrate_tier2`.
        """
        self._check(log)
        return self._store.migrate_tier2(log, address, delete=delete, progress=progress)

    # Verification and repair.

    def verify_log(
        self, log: str, *, tier2: bool = False, progress: Progress = no_progress
    ) -> LogReport:
        """Read and check all segments of a log; with `tier2` also their objects in Tier 2.

        Without `tier2`, segments that only Tier 2 has are not read; the report lists them.
        """
        self._check(log)
        with self._store.open_read_only() as store:
            return store.maintenance.verify_log(log, tier2=tier2, progress=progress)

    def verify_manifest(self, log: str, *, progress: Progress = no_progress) -> ManifestReport:
        """Read a log's manifest log; compare it with the log's segments and their copies.

        `log` is the log's name or stream id. The content of copies in Tiers 1 and 2 is not read.
        """
        with self._store.open_read_only() as store:
            return store.maintenance.verify_manifest(log, progress=progress)

    def repair_log(
        self, log: str, *, dry_run: bool = False, progress: Progress = no_progress
    ) -> RepairReport:
        from lakebed.store.repair import preview_while_open, repair

        self._check(log)
        work = preview_while_open if dry_run else repair
        return work(self._store, log, progress=progress)

    def verify_topic(self, topic: str, *, progress: Progress = no_progress) -> TopicReport:
        with self._store.open_read_only() as store:
            return store.maintenance.verify_topic(topic, progress=progress)

    def repair_topic(
        self, topic: str, *, dry_run: bool = False, progress: Progress = no_progress
    ) -> TopicRepair:
        from lakebed.store.topic_repair import preview_topic_while_open, repair_topic

        work = preview_topic_while_open if dry_run else repair_topic
        return work(self._store, topic, progress=progress)

    def verify_objects(
        self, *, bucket: str | None = None, prefix: str = "", progress: Progress = no_progress
    ) -> LakeReport:
        """Read and check all objects, or the objects of `bucket` whose keys begin with `prefix`.

        Calls `progress` with the number of bytes read so far, and 0 instead of the total, which is
        not known. Raises `InputError` if there is a `prefix` but no `bucket`.
        """
        with self._store.open_read_only() as store:
            return store.maintenance.verify_objects(bucket=bucket, prefix=prefix, progress=progress)

    def verify_store(self, *, tier2: bool = True, progress: Progress = no_progress) -> StoreReport:
        """Read and check all logs, topics, groups and objects of the store.

        With `tier2`, the copies of log segments in Tier 2 are read too. Even without it, Tier 2 is
        asked whether it has the uploaded chunks of manifest logs.
        """
        with self._store.open_read_only() as store:
            return store.maintenance.verify_store(tier2=tier2, progress=progress)

    def mark_objects(
        self, versions: Sequence[NamedVersion], *, progress: Progress = no_progress
    ) -> MarkReport:
        """Read object versions again; mark the damaged ones, and unmark those that are whole."""
        from lakebed.store.damage_marks import mark_damaged

        return mark_damaged(self._store.lake, versions, progress=progress)

    def _moves(self, log: str, progress: Progress) -> TierMoves:
        from lakebed.store.tier_moves import TierMoves

        self._check(log)
        return TierMoves(self._store, log, progress=progress)

    def _check(self, log: str) -> None:
        check_log_name(log)
        require_log(self._store.disk, self._store.root, log)
