"""Verifies a whole store: logs in every tier, their manifest logs, topics, groups and objects.

    report = verify_store(root)
    report.is_good

Nothing is changed and no lock is taken. There are three steps, which may run in different
processes: `plan_store` lists the pieces to check, a `StoreCheck` checks one piece after another, in
any process and order, and `join_store` makes one report of the findings. A piece that cannot be
checked is reported, and the other pieces are still checked. Data that is deleted during the
verification does not count as damage; a topic that was deleted is reported as deleted.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import NamedTuple, cast

from lakebed.aof.tiers.errors import Tier2Error
from lakebed.base.damage_ledger import DamageRecord, Ledger
from lakebed.base.errors import LakebedError, NotFound
from lakebed.base.files import PathLike
from lakebed.base.progress import Progress, no_progress
from lakebed.base.units import GIB, KIB
from lakebed.keratin.paths import SegmentFile, TopicPaths
from lakebed.seglake.lake_check import LakeCheck, join_lake
from lakebed.seglake.verification_plan import LakePiece, LakePlan, plan_lake, size_of
from lakebed.seglake.verification_report import Finding as LakeFinding
from lakebed.seglake.verification_report import Report as LakeReport
from lakebed.store.group_verification import (
    GroupFinding,
    GroupPiece,
    GroupsPlan,
    GroupsReport,
    check_group,
    join_groups,
    plan_groups,
)
from lakebed.store.log_check import (
    LogCheck,
    LogFinding,
    LogPiece,
    LogPlan,
    LogReport,
    join_log,
    plan_log,
)
from lakebed.store.manifest_logs import find_manifest_log
from lakebed.store.manifest_verification import ManifestReport, verify_manifest_log
from lakebed.store.read_only import ReadOnlyStore
from lakebed.store.tier_verification import check_chunk_objects
from lakebed.store.topic_verification import (
    TopicFinding,
    TopicGone,
    TopicPiece,
    TopicPlan,
    TopicReport,
    check_topic_piece,
    plan_topic,
)
from lakebed.store.verification import SegmentPiece
from lakebed.stroma.paths import GroupPaths

_log = logging.getLogger(__name__)

OBJECTS_BYTES = (
    GIB  # size of a piece of objects in `verify_store`, which reports progress per piece
)


class CheckedLog(NamedTuple):
    name: str
    report: LogReport
    manifest: ManifestReport | None  # None if there is none, or it is empty or unchecked
    unreached: Tier2Error | None  # why not all of Tier 2 was read

    @property
    def problems(self) -> list[str]:
        problems = [*self.report.problems, *(self.manifest.problems if self.manifest else ())]
        return list(map(str, problems))


class CheckedTopic(NamedTuple):
    name: str
    report: TopicReport


class Unchecked(NamedTuple):
    """A part of the store that could not be checked, and why."""

    what: str
    why: str

    def __str__(self) -> str:
        return f"{self.what}: could not be checked: {self.why}"


class StoreReport(NamedTuple):
    """The result of verifying a store."""

    logs: tuple[CheckedLog, ...]
    topics: tuple[CheckedTopic, ...]
    objects: LakeReport
    unchecked: tuple[Unchecked, ...]
    groups: GroupsReport = GroupsReport()
    gone: tuple[str, ...] = ()  # topics that were deleted meanwhile
    damage: tuple[DamageRecord, ...] = ()  # recorded losses that are not acknowledged
    forgotten_count: int = 0  # losses that the record of damage had no room for

    @property
    def is_good(self) -> bool:
        """Whether no problem was found, no loss is on record, and everything could be checked.

        Losses that an operator has acknowledged do not count. Nor do segments that were not read
        because only Tier 2 has them and `tier2` was not set.
        """
        is_reached = all(log.unreached is None for log in self.logs)
        return is_reached and not self.unchecked and not self.problem_count

    @property
    def problem_count(self) -> int:
        of_logs = sum(len(log.problems) for log in self.logs)
        of_topics = sum(len(topic.report.problems) for topic in self.topics)
        on_record = len(self.damage) + self.forgotten_count
        of_engines = of_logs + of_topics + len(self.groups.problems) + len(self.objects.problems)
        return of_engines + on_record


class ManifestPiece(NamedTuple):
    """One unit of the check: the whole manifest log of a log."""

    log: str


Piece = ManifestPiece | LogPiece | TopicPiece | GroupPiece | LakePiece


class StorePlan(NamedTuple):
    """The pieces to check, and the parts of the store that could not be listed."""

    logs: tuple[LogPlan, ...]
    topics: tuple[TopicPlan, ...]
    groups: GroupsPlan
    lake: LakePlan
    unchecked: tuple[Unchecked, ...]
    gone: tuple[str, ...]  # topics that were deleted while the plan was made
    sizes: tuple[int, ...]  # for each piece, about how many bytes its check reads
    damage: Ledger = Ledger()  # the losses on record

    def pieces(self) -> list[Piece]:
        pieces: list[Piece] = []
        for log in self.logs:
            pieces += [ManifestPiece(log.log), *log.pieces]
        for topic in self.topics:
            pieces += topic.pieces()
        return [*pieces, *self.groups.pieces, *self.lake.pieces]


class ManifestFinding(NamedTuple):
    report: ManifestReport | None
    unreached: Tier2Error | None = None


Finding = (
    ManifestFinding
    | LogFinding
    | TopicFinding
    | TopicGone
    | GroupFinding
    | LakeFinding
    | Unchecked
    | None
)
"""The result of checking one piece; None if the piece was removed meanwhile."""


def verify_store(
    root: PathLike | ReadOnlyStore,
    *,
    tier2: bool = True,
    progress: Progress = no_progress,
) -> StoreReport:
    """Verifies all of a store in this process; with `tier2` also the segments in Tier 2.

    `root` is the folder of the store, or the open store. In any case, the uploaded chunks of
    manifest logs are looked up in Tier 2. Calls `progress` with about how many bytes were checked
    so far, and how many there are.
    """
    if not isinstance(root, ReadOnlyStore):
        with ReadOnlyStore(root) as store:
            return verify_store(store, tier2=tier2, progress=progress)
    plan = plan_store(root, tier2=tier2, bytes_max=OBJECTS_BYTES)
    findings: list[Finding] = []
    done, total = 0, sum(plan.sizes)
    with StoreCheck(root) as check:
        for piece, size in zip(plan.pieces(), plan.sizes, strict=True):
            findings.append(check.run(piece))
            done += size
            progress(done, total)
    return join_store(plan, findings)


def plan_store(
    store: ReadOnlyStore, *, tier2: bool = True, bytes_max: int | None = None
) -> StorePlan:
    """Lists the pieces of a store to check.

    Objects are split into pieces of about `bytes_max` bytes; without it each bucket is one piece.
    """
    unchecked: list[Unchecked] = []
    logs, topics, gone = [], [], []
    groups, lake = GroupsPlan(), LakePlan(())
    for name in store.logs():
        try:
            logs.append(plan_log(store, name, tier2=tier2))
        except Exception as error:  # noqa: BLE001 - as in `StoreCheck.run`
            unchecked.append(_unchecked(f"log {name}", error))
    for name in store.topics.names():
        try:
            topics.append(plan_topic(store.disk, store.root, name, runner=store.runner))
        except Exception as error:  # noqa: BLE001 - as in `StoreCheck.run`
            if name in store.topics.names():
                unchecked.append(_unchecked(f"topic {name}", error))
            else:
                gone.append(name)
    try:
        groups = plan_groups(store.disk, store.root)
    except Exception as error:  # noqa: BLE001 - as in `StoreCheck.run`
        unchecked.append(_unchecked("groups", error))
    ledger = Ledger()
    try:
        ledger = store.damage.ledger()
    except Exception as error:  # noqa: BLE001 - as in `StoreCheck.run`
        unchecked.append(_unchecked("record of damage", error))
    try:
        lake = plan_lake(store.lake, bytes_max=bytes_max)
    except Exception as error:  # noqa: BLE001 - as in `StoreCheck.run`
        unchecked.append(_unchecked("objects", error))
    plan = StorePlan(
        tuple(logs),
        tuple(topics),
        groups,
        lake,
        tuple(unchecked),
        tuple(gone),
        sizes=(),
        damage=ledger,
    )
    return plan._replace(sizes=tuple(_size(store, piece) for piece in plan.pieces()))


class StoreCheck:
    """Checks pieces of one store, in any order."""

    def __init__(self, store: ReadOnlyStore) -> None:
        self._store = store
        self._logs: dict[str, LogCheck] = {}
        self._lake: LakeCheck | None = None

    def run(self, piece: Piece) -> Finding:
        """Checks one piece. If an error prevents that, returns an `Unchecked` with the error."""
        try:
            return self._check_piece(piece)
        except Exception as error:  # noqa: BLE001 - an unexpected error must not hide other findings
            return _unchecked(_what(piece), error)

    def close(self) -> None:
        """Closes the files that the checks opened. Idempotent."""
        if self._lake is not None:
            self._lake.close()

    def __enter__(self) -> StoreCheck:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _check_piece(self, piece: Piece) -> Finding:
        store = self._store
        if isinstance(piece, ManifestPiece):
            return _check_manifest(store, piece.log)
        if isinstance(piece, LogPiece):
            if piece.log not in self._logs:
                self._logs[piece.log] = LogCheck(store, piece.log)
            return self._logs[piece.log].run(piece)
        if isinstance(piece, TopicPiece):
            return check_topic_piece(store.disk, store.root, piece, runner=store.runner)
        if isinstance(piece, GroupPiece):
            return check_group(store.disk, store.root, piece, runner=store.runner)
        if self._lake is None:
            self._lake = LakeCheck(store.lake, runner=store.runner)
        return self._lake.run(piece)


def join_store(plan: StorePlan, findings: Sequence[Finding]) -> StoreReport:
    """Combines the findings into one report.

    `findings` must have one finding for each of the plan's pieces, in the same order.
    """
    unchecked = [*plan.unchecked, *(item for item in findings if isinstance(item, Unchecked))]
    remaining = iter(None if isinstance(item, Unchecked) else item for item in findings)
    logs = tuple(_joined_log(log, remaining) for log in plan.logs)
    topics, gone = [], list(plan.gone)
    for topic in plan.topics:
        of_topic = list(islice(remaining, len(topic.pieces())))
        if any(isinstance(finding, TopicGone) for finding in of_topic):
            gone.append(topic.topic)
            continue
        report = topic.join(cast("list[TopicFinding | None]", of_topic))
        topics.append(CheckedTopic(topic.topic, report))
    of_groups = [
        finding for finding in islice(remaining, len(plan.groups.pieces)) if finding is not None
    ]
    groups = join_groups(plan.groups, cast("list[GroupFinding]", of_groups))
    lake = cast("list[LakeFinding]", [finding for finding in remaining if finding is not None])
    return StoreReport(
        logs,
        tuple(topics),
        join_lake(plan.lake, lake),
        unchecked=tuple(dict.fromkeys(unchecked)),
        groups=groups,
        gone=tuple(gone),
        damage=plan.damage.unacknowledged,
        forgotten_count=plan.damage.forgotten_count,
    )


def _joined_log(plan: LogPlan, remaining: Iterator[object]) -> CheckedLog:
    manifest = cast("ManifestFinding | None", next(remaining)) or ManifestFinding(None)
    findings = cast("list[LogFinding | None]", list(islice(remaining, len(plan.pieces))))
    report = join_log(plan, [finding for finding in findings if finding is not None])
    return CheckedLog(plan.log, report, manifest.report, report.unreached or manifest.unreached)


def _check_manifest(store: ReadOnlyStore, name: str) -> ManifestFinding:
    try:
        manifest_log = find_manifest_log(store.disk, store.root, name)
    except NotFound:
        return ManifestFinding(None)
    report = verify_manifest_log(manifest_log, runner=store.runner, progress=lambda *_: None)
    objects = check_chunk_objects(store, manifest_log)
    report.uploaded_chunk_count = objects.chunks
    report.problems += objects.problems
    report.notes += objects.notes
    return ManifestFinding(report, objects.unreached)


def _unchecked(what: str, error: Exception) -> Unchecked:
    if isinstance(error, LakebedError):
        return Unchecked(what, str(error))
    _log.error("%s: the check failed", what, exc_info=error)
    return Unchecked(what, f"this is a bug in Lakebed: {type(error).__name__}: {error}")


def _what(piece: Piece) -> str:
    if isinstance(piece, ManifestPiece):
        return f"manifest log of {piece.log}"
    if isinstance(piece, LogPiece):
        what = piece.what
        return what.path if isinstance(what, SegmentPiece) else f"log {piece.log}"
    if isinstance(piece, TopicPiece):
        return f"topic {piece.topic}, partition {piece.partition}"
    return f"group {piece.name}" if isinstance(piece, GroupPiece) else "objects"


def _size(store: ReadOnlyStore, piece: Piece) -> int:
    if isinstance(piece, ManifestPiece):
        return 64 * KIB
    if isinstance(piece, LogPiece):
        what = piece.what
        if isinstance(what, SegmentPiece):
            return _file_size(store, what.path)
        return what.state.durable_bytes  # uncompressed, because decompression dominates the cost
    if isinstance(piece, TopicPiece):
        paths = TopicPaths(store.root, piece.topic).partition(piece.partition)
        return _file_size(store, paths.segment(piece.segment.base_offset, SegmentFile.LOG))
    if isinstance(piece, GroupPiece):
        files = GroupPaths(store.root, piece.name)
        return _file_size(store, files.snapshot) + _file_size(store, files.delta)
    return size_of(piece)


def _file_size(store: ReadOnlyStore, path: str) -> int:
    try:
        with store.disk.open(path) as file:
            return file.size()
    except LakebedError:
        return 0  # the check of the piece reports the error
