"""Jobs: long-running work that the process with the store open does for other programs.

A `Job` names a method of `lakebed.store.maintenance.Maintenance`, the class of its keyword
arguments, and the class of its report. The HTTP API runs jobs and the client calls them, so a
report has the same class on both sides. Arguments are checked before the job does anything. A job
that is cancelled ends at its next step. Completed steps are not undone: a job that moves segments
or migrates a Tier 2 skips them if it is run again. Verifications and repairs start over.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Final, Protocol

import msgspec
from msgspec import Meta, Struct
from msgspec.structs import asdict

from lakebed.aof.tiers.migration import MigrationReport
from lakebed.api.job_reports import document_of
from lakebed.base.errors import InputError
from lakebed.base.progress import Progress
from lakebed.seglake.verification_report import Report as LakeReport
from lakebed.store.damage_marks import MarkReport, NamedVersion
from lakebed.store.log_check import LogReport
from lakebed.store.manifest_verification import ManifestReport
from lakebed.store.repair import RepairReport
from lakebed.store.store import Store
from lakebed.store.store_check import StoreReport
from lakebed.store.tier_moves import Outcome
from lakebed.store.topic_repair import TopicRepair
from lakebed.store.topic_verification import TopicReport

_SEGMENTS_MAX: Final = 100_000
VERSIONS_MAX: Final = 500  # as many names as fit into one request body

Arguments = Mapping[str, Any]
IsCancelled = Callable[[], bool]
SegmentId = Annotated[int, Meta(ge=0, le=(1 << 32) - 1)]


class JobKind(Protocol):
    """A kind of job, which can be started by its name."""

    def run(
        self, store: Store, arguments: Arguments, progress: Progress, is_cancelled: IsCancelled
    ) -> dict[str, Any]:
        """Runs the job in the caller's thread, and returns its report as a JSON document.

        The job calls `is_cancelled` between its steps, and ends soon after that has returned True.
        The job then counts as cancelled, even if it completed its work.
        """


class _Cancelled(Exception):
    """Raised between two steps of a job that was cancelled."""


# Arguments.


class OfLog(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    log: str


class OfSegments(OfLog, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Selects segments of a log by their ids.

    By default all sealed segments are selected that the job can move, or for `aof-retry-upload`
    those whose last upload failed.
    """

    segments: Annotated[list[SegmentId], Meta(max_length=_SEGMENTS_MAX)] | None = None


class Eviction(OfSegments, frozen=True, kw_only=True, forbid_unknown_fields=True):
    warm: bool = False  # also remove them from Tier 1


class NewTier2(OfLog, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A new Tier 2 for a log; by default the Tier 2 that new logs get."""

    address: str | None = None
    delete: bool = False  # delete the objects at the old address after they were copied


class LogRepair(OfLog, frozen=True, kw_only=True, forbid_unknown_fields=True):
    dry_run: bool = False


class LogCheck(OfLog, frozen=True, kw_only=True, forbid_unknown_fields=True):
    tier2: bool = False  # also read the objects in Tier 2


class StoreCheck(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    tier2: bool = True  # read the objects of logs in Tier 2 as well


class OfTopic(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    topic: str


class RepairOfTopic(OfTopic, frozen=True, kw_only=True, forbid_unknown_fields=True):
    dry_run: bool = False


class OfObjects(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Selects all objects, or the objects of `bucket` whose keys begin with `prefix`."""

    bucket: str | None = None
    prefix: str = ""


class DamagedVersions(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Object versions that may be damaged, each given as a bucket, a key and a version id."""

    versions: Annotated[list[NamedVersion], Meta(max_length=VERSIONS_MAX)]


# The table.


@dataclass(frozen=True)
class Job:
    """A kind of job that calls a method of `Maintenance`.

    `method` is the name of the method; `arguments` and `report` are the classes of its arguments
    and its report.
    """

    method: str
    arguments: type[Struct]
    report: type

    def run(
        self, store: Store, arguments: Arguments, progress: Progress, is_cancelled: IsCancelled
    ) -> dict[str, Any]:
        checked = self.checked(arguments)

        def step(done: int, total: int) -> None:
            progress(done, total)
            if is_cancelled():
                raise _Cancelled

        work = getattr(store.maintenance, self.method)
        try:
            return document_of(work(**asdict(checked), progress=step))
        except _Cancelled:
            return {}

    def checked(self, arguments: Arguments) -> Struct:
        """Converts the arguments to their class. Raises `InputError` if one is missing, unknown or
        invalid."""
        try:
            return msgspec.convert(dict(arguments), self.arguments)
        except msgspec.ValidationError as error:
            raise InputError(
                f"the arguments of the maintenance job {self.method} are not valid: {error}"
            ) from None


JOBS: Final[Mapping[str, Job]] = {
    "aof-upload": Job("upload", OfSegments, Outcome),
    "aof-retry-upload": Job("retry_upload", OfSegments, Outcome),
    "aof-evict": Job("evict", Eviction, Outcome),
    "aof-hydrate": Job("hydrate", OfSegments, Outcome),
    "aof-repair-tier2": Job("repair_tier2", OfLog, Outcome),
    "aof-migrate-tier2": Job("migrate_tier2", NewTier2, MigrationReport),
    "aof-repair": Job("repair_log", LogRepair, RepairReport),
    "aof-verify": Job("verify_log", LogCheck, LogReport),
    "topic-repair": Job("repair_topic", RepairOfTopic, TopicRepair),
    "topic-verify": Job("verify_topic", OfTopic, TopicReport),
    "manifest-verify": Job("verify_manifest", OfLog, ManifestReport),
    "store-verify": Job("verify_store", StoreCheck, StoreReport),
    "objects-verify": Job("verify_objects", OfObjects, LakeReport),
    "objects-mark": Job("mark_objects", DamagedVersions, MarkReport),
}
