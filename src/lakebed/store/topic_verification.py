"""Verifying a topic: every byte of every partition. Nothing is changed and no lock is taken.

Beside a writer the newest segment of a partition is judged up to the durable end: what stands
behind it is not part of the log yet, and cannot be called torn. A writer may also remove or replace
segments meanwhile: one that looks damaged is looked at again, as the manifest then lists it. It may
even delete the topic: then there is none, and none that is damaged.

A log decides: an index or a manifest that does not fit it is a problem, but no loss; opening the
topic for writing mends it. A log that compaction has replaced and the manifest does not list yet is
none at all: it is noted.

It is done in three steps, which may be apart: `plan_topic` lists what there is to check,
`check_topic_piece` checks one segment, `TopicPlan.join` makes one report of all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import islice
from typing import NamedTuple

from lakebed.base.clock import NS_PER_MS
from lakebed.base.damage import Verdict
from lakebed.base.damage_ledger import TOPICS, Ledger
from lakebed.base.errors import BadConfig, DataError, NotFound
from lakebed.base.files import Disk
from lakebed.base.progress import Progress
from lakebed.base.runner import Runner
from lakebed.keratin.durable_end import load_durable_end
from lakebed.keratin.identity import TopicIdentity, load_identity
from lakebed.keratin.manifest import load_manifest
from lakebed.keratin.partition_verification import (
    PartitionPlan,
    PartitionVerification,
    SegmentPiece,
    SegmentVerification,
    check_segment,
    plan_partition,
    verify_partition,
    verify_segment,
)
from lakebed.keratin.paths import PartitionPaths, TopicPaths
from lakebed.store.read_only_topic import require_topic
from lakebed.store.topic_report import (
    MENDABLE,
    LostOffsets,
    PartitionFindings,
    TopicFinding,
    TopicProblem,
    TopicReport,
    finding_of,
    findings_of,
    join_topic,
)

__all__ = [
    "MENDABLE",
    "LostOffsets",
    "TopicFinding",
    "TopicGone",
    "TopicPiece",
    "TopicPlan",
    "TopicProblem",
    "TopicReport",
    "check_topic_piece",
    "plan_topic",
    "report_of",
    "verify_alone",
    "verify_topic",
]

_LOOK_AGAIN_NS = 20 * NS_PER_MS
_LOOKS_MAX = 3


class TopicPiece(NamedTuple):
    """One segment of one partition."""

    topic: str
    partition: int
    segment: SegmentPiece
    topic_id: str


class TopicGone(NamedTuple):
    """Found in the place of a piece of a topic that was deleted since it was planned."""

    topic: str


class TopicPlan(NamedTuple):
    """What there is to check, and what was found before any segment was read."""

    topic: str
    topic_id: str
    partitions: tuple[PartitionPlan, ...]

    def pieces(self) -> list[TopicPiece]:
        """By partition, in order."""
        return [
            TopicPiece(self.topic, number, segment, self.topic_id)
            for number, plan in enumerate(self.partitions)
            for segment in plan.segments
        ]

    def join(self, found: Sequence[TopicFinding | None]) -> TopicReport:
        """`found` is what came of the pieces, in their order."""
        rest = iter(found)
        return join_topic(
            [
                _findings(number, plan, list(islice(rest, len(plan.segments))))
                for number, plan in enumerate(self.partitions)
            ]
        )


def verify_topic(
    disk: Disk, root: str, name: str, *, runner: Runner, progress: Progress
) -> TopicReport:
    """Beside a writer, or after it; `NotFound` if there is no such topic, or none any more."""
    identity = require_topic(disk, TopicPaths(root, name))
    found = []
    for number in range(identity.partition_count):
        # One after the other: the shorter a plan waits, the less of it has changed.
        plan = _plan_partition(disk, root, name, number, identity, runner)
        segments: list[TopicFinding | None] = []
        for segment in plan.segments:
            piece = TopicPiece(name, number, segment, identity.topic_id)
            one = check_topic_piece(disk, root, piece, runner=runner)
            if isinstance(one, TopicGone):
                raise _no_topic(root, name)
            segments.append(one)
        found.append(_findings(number, plan, segments))
        if found[-1].problems and not _is_there(disk, root, name, identity.topic_id):
            raise _no_topic(root, name)
        progress(number + 1, identity.partition_count)
    return join_topic(found)


def with_recorded(report: TopicReport, ledger: Ledger, topic: str) -> TopicReport:
    """What was found, and what is on record as lost and not acknowledged."""
    recorded = tuple(
        TopicProblem(
            partition=record.partition or 0,
            path=record.path,
            offset=record.start,
            length=(record.end or 0) - (record.start or 0),
            verdict=Verdict.CORRUPT.value,
            problem=f"on record: {record}; lakebed damage acknowledge {record.id}, if known",
        )
        for record in ledger.unacknowledged
        if (record.engine, record.name) == (TOPICS, topic)
    )
    return report._replace(problems=(*report.problems, *recorded))


def plan_topic(disk: Disk, root: str, name: str, *, runner: Runner) -> TopicPlan:
    """All of it; `NotFound` if there is no such topic, or it is deleted meanwhile."""
    identity = require_topic(disk, TopicPaths(root, name))
    partitions = tuple(
        _plan_partition(disk, root, name, number, identity, runner)
        for number in range(identity.partition_count)
    )
    if not _is_there(disk, root, name, identity.topic_id):
        raise _no_topic(root, name)
    return TopicPlan(name, identity.topic_id, partitions)


def check_topic_piece(
    disk: Disk, root: str, piece: TopicPiece, *, runner: Runner
) -> TopicFinding | TopicGone | None:
    """None if it was removed since it was planned."""
    try:
        found = _checked(disk, root, piece, runner)
    except NotFound:
        if _is_there(disk, root, piece.topic, piece.topic_id):
            raise
        return TopicGone(piece.topic)
    is_whole = found is not None and not found.problems
    if not is_whole and not _is_there(disk, root, piece.topic, piece.topic_id):
        return TopicGone(piece.topic)
    return found


def _checked(disk: Disk, root: str, piece: TopicPiece, runner: Runner) -> TopicFinding | None:
    paths = TopicPaths(root, piece.topic).partition(piece.partition)
    found: SegmentVerification | None = check_segment(disk, paths, piece.segment)
    assert found is not None
    if not piece.segment.is_live:
        return finding_of(piece.partition, found)
    if _is_suspect(found):
        runner.sleep_ns(_LOOK_AGAIN_NS)
        found = _checked_again(disk, paths, found)
    if found is None:
        return None
    found = _without_tail(found)
    if not _is_replaced(disk, found):
        return finding_of(piece.partition, found)
    return finding_of(piece.partition, _as_replaced(found), [_replaced_note(found)])


def verify_alone(
    disk: Disk, paths: TopicPaths, count: int, *, progress: Progress
) -> list[PartitionVerification]:
    """All that is in the files of `count` partitions. Only for the holder of the lock, while the
    topic is not open."""
    found = []
    for number in range(count):
        found.append(_with_replaced(disk, verify_partition(disk, paths.partition(number))))
        progress(number + 1, count)
    return found


def report_of(found: list[PartitionVerification]) -> TopicReport:
    """`found` are all partitions, by number."""
    return join_topic([findings_of(number, one) for number, one in enumerate(found)])


def _findings(
    number: int, plan: PartitionPlan, segments: Sequence[TopicFinding | None]
) -> PartitionFindings:
    """Without those that had gone."""
    there = [one for one in segments if one is not None]
    return PartitionFindings(number, plan.problems, plan.notes, there, plan.is_missing)


def _plan_partition(
    disk: Disk, root: str, name: str, number: int, identity: TopicIdentity, runner: Runner
) -> PartitionPlan:
    paths = TopicPaths(root, name).partition(number)
    try:
        published = load_durable_end(disk, paths.durable_end)
        is_live = published is not None and published.boot_id == disk.boot_id()
        plan = plan_partition(disk, paths, is_live=is_live)
        for _ in range(_LOOKS_MAX - 1):
            if not is_live or not plan.problems:
                break
            runner.sleep_ns(_LOOK_AGAIN_NS)  # the active segment may have been another meanwhile
            plan = plan_partition(disk, paths, is_live=is_live)
        if plan.is_missing and not _is_there(disk, root, name, identity.topic_id):
            raise _no_topic(root, name)
    except NotFound:
        if _is_there(disk, root, name, identity.topic_id):
            raise
        raise _no_topic(root, name) from None
    return plan


def _is_there(disk: Disk, root: str, name: str, topic_id: str) -> bool:
    """Still, and not another of that name."""
    try:
        return load_identity(disk, TopicPaths(root, name)).topic_id == topic_id
    except NotFound:
        return False
    except (DataError, BadConfig):
        return True


def _no_topic(root: str, name: str) -> NotFound:
    return NotFound(f"{root}: there is no topic {name} any more: it was deleted meanwhile")


def _checked_again(
    disk: Disk, paths: PartitionPaths, found: SegmentVerification
) -> SegmentVerification | None:
    """The same segment; None if it was removed or replaced meanwhile."""
    try:
        manifest = load_manifest(disk, paths.manifest)
    except (NotFound, DataError):
        return found
    listed = {segment.base_offset: segment for segment in manifest.segments}
    if found.base_offset in listed:
        again = verify_segment(disk, paths, listed[found.base_offset])
        is_there = again.inspection is not None or _is_listed(disk, paths, found.base_offset)
        return again if is_there else None
    return found if not found.is_sealed and found.inspection is not None else None


def _is_listed(disk: Disk, paths: PartitionPaths, base_offset: int) -> bool:
    """Now, after its file was found to be missing."""
    manifest = load_manifest(disk, paths.manifest)
    return any(segment.base_offset == base_offset for segment in manifest.segments)


def _is_suspect(segment: SegmentVerification) -> bool:
    return segment.verdict is Verdict.CORRUPT or bool(segment.index_problems)


def _without_tail(segment: SegmentVerification) -> SegmentVerification:
    """Where somebody may be writing, an unfinished end is no problem, nor are its indexes."""
    if segment.is_sealed or segment.inspection is None:
        return segment
    inspection = segment.inspection
    if inspection.verdict is Verdict.TORN:
        inspection = replace(inspection, verdict=Verdict.WHOLE, tail=None, header_error=None)
    return replace(segment, inspection=inspection, index_problems=())


def _with_replaced(disk: Disk, found: PartitionVerification) -> PartitionVerification:
    """Logs that are whole, but shorter than the manifest says, are so by compaction."""
    segments, notes = [], list(found.notes)
    for segment in found.segments:
        if _is_replaced(disk, segment):
            notes.append(_replaced_note(segment))
            segments.append(_as_replaced(segment))
        else:
            segments.append(segment)
    return replace(found, segments=tuple(segments), notes=tuple(notes))


def _as_replaced(segment: SegmentVerification) -> SegmentVerification:
    assert segment.inspection is not None
    whole = replace(segment.inspection, verdict=Verdict.WHOLE, damages=())
    return replace(segment, inspection=whole, index_problems=())


def _replaced_note(segment: SegmentVerification) -> str:
    return f"{segment.path}: was replaced, and the manifest does not list that yet"


def _is_replaced(disk: Disk, segment: SegmentVerification) -> bool:
    """A log that was cut short lacks its last offset; one that was rewritten always has it."""
    inspection = segment.inspection
    if inspection is None or inspection.header_error is not None or len(inspection.damages) != 1:
        return False
    [damage] = inspection.damages
    if damage.start != inspection.end or damage.first_offset < damage.next_offset:
        return False
    try:
        with disk.open(segment.path) as file:
            return file.size() <= inspection.end
    except NotFound:
        return False
