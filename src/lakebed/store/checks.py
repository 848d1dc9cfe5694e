"""Verifies a store that is open read-only, even while another process writes the store.

No lock is taken and nothing is changed.

    ReadOnlyStore(root).maintenance.verify_log("orders", tier2=True)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakebed.base.errors import InputError
from lakebed.base.progress import Progress, no_progress

# The methods import what they need: most programs call none of them.
if TYPE_CHECKING:
    from lakebed.seglake.verification_report import Report as LakeReport
    from lakebed.store.log_check import LogReport
    from lakebed.store.manifest_verification import ManifestReport
    from lakebed.store.read_only import ReadOnlyStore
    from lakebed.store.store_check import StoreReport
    from lakebed.store.topic_verification import TopicReport


class Checks:
    """Verifies the parts of one read-only store. Thread-safe.

    Implements `lakebed.api.read_surface.Verification`.
    """

    def __init__(self, store: ReadOnlyStore) -> None:
        self._store = store

    def verify_log(
        self, log: str, *, tier2: bool = False, progress: Progress = no_progress
    ) -> LogReport:
        """Read and check all segments of a log; with `tier2` also their objects in Tier 2.

        Without `tier2`, segments that only Tier 2 has are not read; the report lists them.
        """
        from lakebed.store.log_check import check_log

        return check_log(self._store, log, tier2=tier2, progress=progress)

    def verify_manifest(self, log: str, *, progress: Progress = no_progress) -> ManifestReport:
        """Read a log's manifest log; compare it with the log's segments and their copies.

        `log` is the log's name or stream id. The content of copies in Tiers 1 and 2 is not read.
        """
        from lakebed.store.manifest_logs import find_manifest_log
        from lakebed.store.manifest_verification import verify_manifest_log
        from lakebed.store.tier_verification import check_copies

        store = self._store
        manifest = find_manifest_log(store.disk, store.root, log)
        report = verify_manifest_log(manifest, runner=store.runner, progress=progress)
        copies = check_copies(store, manifest, progress=progress)
        report.warm_file_count, report.object_count = copies.warm_files, copies.objects
        report.uploaded_chunk_count = copies.chunks
        report.problems += copies.problems
        report.notes += copies.notes
        report.unreached = copies.unreached
        return report

    def verify_topic(self, topic: str, *, progress: Progress = no_progress) -> TopicReport:
        from lakebed.store.topic_verification import verify_topic, with_recorded

        store = self._store
        report = verify_topic(store.disk, store.root, topic, runner=store.runner, progress=progress)
        return with_recorded(report, store.damage.ledger(), topic)

    def verify_objects(
        self, *, bucket: str | None = None, prefix: str = "", progress: Progress = no_progress
    ) -> LakeReport:
        """Read and check all objects, or the objects of `bucket` whose keys begin with `prefix`.

        Calls `progress` with the number of bytes read so far, and 0 instead of the total, which is
        not known. Raises `InputError` if there is a `prefix` but no `bucket`.
        """
        from lakebed.seglake.lake_check import verify

        if prefix and bucket is None:
            raise InputError("a prefix needs a bucket: name the bucket of the objects to check")
        return verify(
            self._store.lake,
            runner=self._store.runner,
            bucket=bucket,
            prefix=prefix,
            progress=lambda done: progress(done, 0),
        )

    def verify_store(self, *, tier2: bool = True, progress: Progress = no_progress) -> StoreReport:
        """Read and check all logs, topics, groups and objects of the store.

        With `tier2`, the copies of log segments in Tier 2 are read too. Even without it, Tier 2 is
        asked whether it has the uploaded chunks of manifest logs.
        """
        from lakebed.store.store_check import verify_store

        return verify_store(self._store, tier2=tier2, progress=progress)
