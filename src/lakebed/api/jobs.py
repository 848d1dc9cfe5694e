"""The jobs that the writer of a store runs for other programs: arguments, targets and reports.

Arguments are checked before anything is done. A report travels as a plain document: `REPORTS` has
its class, and `job_reports` decodes it. A job that is cancelled ends at its next step; what it has
done by then stays done, and running it again goes on from there.

All of them are safe while the store is in use; what would not be is refused:
- segments are moved by the log's own tiers, which do one thing at a time to a segment;
- a log is verified up to its durable end, and its damage is copied, never cut: torn bytes are cut
  when it is opened, and the report says how many were;
- objects that seem to be damaged are marked if the store finds them so itself;
- a topic is repaired only while it is not open, and the Tier 2 of a log moves only then: `Busy`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Final, TypeVar

import msgspec
from msgspec import Meta, Struct

from lakebed.aof.paths import check_log_name
from lakebed.aof.tiers.migration import Migrated
from lakebed.api.job_reports import document_of
from lakebed.base.errors import InputError
from lakebed.base.progress import Progress
from lakebed.seglake.verification_report import Report as LakeReport
from lakebed.store.damage_marks import MarkReport, NamedVersion
from lakebed.store.log_check import LogReport, check_log
from lakebed.store.logs import require_log
from lakebed.store.read_only import ReadOnlyStore
from lakebed.store.repair import RepairReport, foresee_beside, repair
from lakebed.store.store import Store
from lakebed.store.tier_moves import Outcome, TierMoves
from lakebed.store.topic_repair import TopicRepair, foresee_topic_beside, repair_topic
from lakebed.store.topic_verification import TopicReport, verify_topic, with_recorded

_SEGMENTS_MAX: Final = 100_000
VERSIONS_MAX: Final = 500  # their names fit into one body

Arguments = Mapping[str, Any]
IsCancelled = Callable[[], bool]
RunJob = Callable[[Store, Arguments, Progress, IsCancelled], dict[str, Any]]
Taken = TypeVar("Taken", bound="OfLog | OfTopic | OfObjects | DamagedVersions")


@dataclass(frozen=True)
class JobKind:
    """`run` has a thread to itself. It reports its progress and asks whether to stop: if it was
    told to and returns, it was cancelled. Its result is what JSON can say."""

    run: RunJob


class _Cancelled(Exception):
    """Raised between two steps of a job that was cancelled."""


# Arguments.

SegmentId = Annotated[int, Meta(ge=0, le=(1 << 32) - 1)]


class OfLog(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    log: str


class OfSegments(OfLog, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Those, or all that are sealed."""

    segments: Annotated[list[SegmentId], Meta(max_length=_SEGMENTS_MAX)] | None = None


class Eviction(OfSegments, frozen=True, kw_only=True, forbid_unknown_fields=True):
    warm: bool = False  # out of Tier 1 as well


class NewTier2(OfLog, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Without an address: where new logs have theirs."""

    address: str | None = None
    delete: bool = False  # the objects at the address before


class LogRepair(OfLog, frozen=True, kw_only=True, forbid_unknown_fields=True):
    dry_run: bool = False


class LogCheck(OfLog, frozen=True, kw_only=True, forbid_unknown_fields=True):
    tier2: bool = False  # read the objects in Tier 2 as well


class OfTopic(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    topic: str


class RepairOfTopic(OfTopic, frozen=True, kw_only=True, forbid_unknown_fields=True):
    dry_run: bool = False


class OfObjects(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All there are, or those of a bucket, whose keys begin so."""

    bucket: str | None = None
    prefix: str = ""


class DamagedVersions(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Versions of objects that seem to be damaged: each as bucket, key and version id."""

    versions: Annotated[list[tuple[str, str, str]], Meta(max_length=VERSIONS_MAX)]


# What is done.


def _upload(store: Store, wanted: OfSegments, progress: Progress) -> Outcome:
    return TierMoves(store, wanted.log, progress=progress).upload(wanted.segments)


def _retry_upload(store: Store, wanted: OfSegments, progress: Progress) -> Outcome:
    return TierMoves(store, wanted.log, progress=progress).retry_upload(wanted.segments)


def _evict(store: Store, wanted: Eviction, progress: Progress) -> Outcome:
    return TierMoves(store, wanted.log, progress=progress).evict(wanted.segments, warm=wanted.warm)


def _hydrate(store: Store, wanted: OfSegments, progress: Progress) -> Outcome:
    return TierMoves(store, wanted.log, progress=progress).hydrate(wanted.segments)


def _repair_tier2(store: Store, wanted: OfLog, progress: Progress) -> Outcome:
    return TierMoves(store, wanted.log, progress=progress).repair()


def _migrate_tier2(store: Store, wanted: NewTier2, progress: Progress) -> Migrated:
    return store.migrate_tier2(wanted.log, wanted.address, delete=wanted.delete, progress=progress)


def _repair_log(store: Store, wanted: LogRepair, progress: Progress) -> RepairReport:
    look = foresee_beside if wanted.dry_run else repair
    return look(store, wanted.log, progress=progress)


def _verify_log(store: Store, wanted: LogCheck, progress: Progress) -> LogReport:
    with _beside(store) as reading:
        return check_log(reading, wanted.log, tier2=wanted.tier2, progress=progress)


def _repair_topic(store: Store, wanted: RepairOfTopic, progress: Progress) -> TopicRepair:
    look = foresee_topic_beside if wanted.dry_run else repair_topic
    return look(store, wanted.topic, progress=progress)


def _verify_topic(store: Store, wanted: OfTopic, progress: Progress) -> TopicReport:
    report = verify_topic(
        store.disk, store.root, wanted.topic, runner=store.runner, progress=progress
    )
    return with_recorded(report, store.damage.ledger(), wanted.topic)


def _verify_objects(store: Store, wanted: OfObjects, progress: Progress) -> LakeReport:
    """How many bytes there are is not known: the total is told as 0."""
    from lakebed.seglake.verify import verify  # SQLite, for who asks for objects

    if wanted.prefix and wanted.bucket is None:
        raise InputError("a prefix needs the bucket it is in")
    with _beside(store) as reading:
        return verify(
            reading.lake,
            runner=reading.runner,
            bucket=wanted.bucket,
            prefix=wanted.prefix,
            progress=lambda report: progress(report.bytes, 0),
        )


def _mark_objects(store: Store, wanted: DamagedVersions, progress: Progress) -> MarkReport:
    versions = [NamedVersion(*one) for one in wanted.versions]
    return store.mark_damaged(versions, progress=progress)


def _beside(store: Store) -> ReadOnlyStore:
    """As any other process would read it."""
    return ReadOnlyStore(store.root, tier_config=store.tier_config)


# The table.


def _kind(
    taken: type[Taken], target: Callable[[Store, Taken, Progress], object], report: type
) -> tuple[JobKind, type]:
    def run(
        store: Store, arguments: Arguments, progress: Progress, is_cancelled: IsCancelled
    ) -> dict[str, Any]:
        wanted = arguments_of(taken, arguments)
        if isinstance(wanted, OfLog):
            check_log_name(wanted.log)
            require_log(store.disk, store.root, wanted.log)

        def step(done: int, total: int) -> None:
            progress(done, total)
            if is_cancelled():
                raise _Cancelled

        try:
            return document_of(target(store, wanted, step))
        except _Cancelled:
            return {}

    return JobKind(run), report


def arguments_of(kind: type[Taken], arguments: Arguments) -> Taken:
    """`InputError` if one is missing, unknown, or not what it should be."""
    try:
        return msgspec.convert(dict(arguments), kind)
    except msgspec.ValidationError as error:
        raise InputError(f"the arguments are not as they should be: {error}") from None


_TABLE: Final = {
    "aof-upload": _kind(OfSegments, _upload, Outcome),
    "aof-retry-upload": _kind(OfSegments, _retry_upload, Outcome),
    "aof-evict": _kind(Eviction, _evict, Outcome),
    "aof-hydrate": _kind(OfSegments, _hydrate, Outcome),
    "aof-repair-tier2": _kind(OfLog, _repair_tier2, Outcome),
    "aof-migrate-tier2": _kind(NewTier2, _migrate_tier2, Migrated),
    "aof-repair": _kind(LogRepair, _repair_log, RepairReport),
    "aof-verify": _kind(LogCheck, _verify_log, LogReport),
    "topic-repair": _kind(RepairOfTopic, _repair_topic, TopicRepair),
    "topic-verify": _kind(OfTopic, _verify_topic, TopicReport),
    "objects-verify": _kind(OfObjects, _verify_objects, LakeReport),
    "objects-mark": _kind(DamagedVersions, _mark_objects, MarkReport),
}

JOBS: Final[Mapping[str, JobKind]] = {name: kind for name, (kind, _) in _TABLE.items()}
REPORTS: Final[Mapping[str, type]] = {name: report for name, (_, report) in _TABLE.items()}
"""What the result of each is, for `job_reports.report_of`."""
