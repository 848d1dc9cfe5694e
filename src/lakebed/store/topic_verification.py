"""Verifies every byte of every partition of a topic. Nothing is changed and no lock is taken.

While another process writes, the newest segment of a partition is checked up to the durable end:
bytes after that are not part of the log yet and are not reported as torn. The writer may also
remove or replace segments during the check, so a segment that looks damaged is checked again, as
the manifest lists it by then. If the writer deletes the topic, it is reported as deleted and not as
damaged.

The log files are authoritative. An index or a manifest that does not match them is a problem, but
nothing is lost: opening the topic for writing fixes it. A log file that compaction has just
replaced, and that the manifest does not list yet, is only a note.

There are three steps, which may run in different processes: `plan_topic` lists the segments to
check, `check_topic_piece` checks one segment, and `TopicPlan.join` makes one report of the results.
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
    """One unit of the check: one segment of one partition."""

    topic: str
    partition: int
    segment: SegmentPiece
    topic_id: str


class TopicGone(NamedTuple):
    """The result for a piece of a topic that was deleted since the plan was made."""

    topic: str


class TopicPlan(NamedTuple):
    """The segments to check, and the problems found while they were listed."""

    topic: str
    topic_id: str
    partitions: tuple[PartitionPlan, ...]

    def pieces(self) -> list[TopicPiece]:
        """Returns the segments to check, ordered by partition and offset."""
        return [
            TopicPiece(self.topic, number, segment, self.topic_id)
            for number, plan in enumerate(self.partitions)
            for segment in plan.segments
        ]

    def join(self, findings: Sequence[TopicFinding | None]) -> TopicReport:
        """Combines the findings into one report.

        `findings` must have one finding for each of `pieces`, in the same order.
        """
        remaining = iter(findings)
        return join_topic(
            [
                _findings(number, plan, list(islice(remaining, len(plan.segments))))
                for number, plan in enumerate(self.partitions)
            ]
        )


def verify_topic(
    disk: Disk, root: str, name: str, *, runner: Runner, progress: Progress
) -> TopicReport:
    """Verifies a topic, even while another process writes it.

    Calls `progress` with the number of partitions that have been checked, and the number of all.
    Raises `NotFound` if there is no such topic, or it is deleted during the check.
    """
    identity = require_topic(disk, TopicPaths(root, name))
    partitions = []
    for number in range(identity.partition_count):
        # Planned one at a time, so that a plan is not out of date when its segments are checked.
        plan = _plan_partition(disk, root, name, number, identity, runner)
        segments: list[TopicFinding | None] = []
        for segment in plan.segments:
            piece = TopicPiece(name, number, segment, identity.topic_id)
            finding = check_topic_piece(disk, root, piece, runner=runner)
            if isinstance(finding, TopicGone):
                raise _no_topic(root, name)
            segments.append(finding)
        partitions.append(_findings(number, plan, segments))
        if partitions[-1].problems and not _is_there(disk, root, name, identity.topic_id):
            raise _no_topic(root, name)
        progress(number + 1, identity.partition_count)
    return join_topic(partitions)


def with_recorded(report: TopicReport, ledger: Ledger, topic: str) -> TopicReport:
    """Returns the report of a topic with the topic's recorded losses added as problems.

    Losses that an operator has acknowledged (`lakebed damage acknowledge`) are left out.
    """
    recorded = tuple(
        TopicProblem(
            partition=record.partition or 0,
            path=record.path,
            offset=record.start,
            length=(record.end or 0) - (record.start or 0),
            verdict=Verdict.CORRUPT.value,
            problem=(
                f"recorded loss: {record}; to acknowledge it: "
                f"lakebed damage acknowledge {record.id}"
            ),
        )
        for record in ledger.unacknowledged
        if (record.engine, record.name) == (TOPICS, topic)
    )
    return report._replace(problems=(*report.problems, *recorded))


def plan_topic(disk: Disk, root: str, name: str, *, runner: Runner) -> TopicPlan:
    """Lists the segments of a topic to check.

    Raises `NotFound` if there is no such topic, or it is deleted meanwhile.
    """
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
    """Checks one segment; returns None if it was removed since the plan was made.

    Returns `TopicGone` if the whole topic was deleted.
    """
    try:
        finding = _checked(disk, root, piece, runner)
    except NotFound:
        if _is_there(disk, root, piece.topic, piece.topic_id):
            raise
        return TopicGone(piece.topic)
    is_whole = finding is not None and not finding.problems
    if not is_whole and not _is_there(disk, root, piece.topic, piece.topic_id):
        return TopicGone(piece.topic)
    return finding


def _checked(disk: Disk, root: str, piece: TopicPiece, runner: Runner) -> TopicFinding | None:
    paths = TopicPaths(root, piece.topic).partition(piece.partition)
    segment: SegmentVerification | None = check_segment(disk, paths, piece.segment)
    assert segment is not None
    if not piece.segment.is_live:
        return finding_of(piece.partition, segment)
    if _is_suspect(segment):
        runner.sleep_ns(_LOOK_AGAIN_NS)
        segment = _checked_again(disk, paths, segment)
    if segment is None:
        return None
    segment = _without_tail(segment)
    if not _is_replaced(disk, segment):
        return finding_of(piece.partition, segment)
    return finding_of(piece.partition, _as_replaced(segment), [_replaced_note(segment)])


def verify_alone(
    disk: Disk, paths: TopicPaths, count: int, *, progress: Progress
) -> list[PartitionVerification]:
    """Verifies all bytes of `count` partitions.

    The caller must hold the store's lock, and the topic must not be open.
    """
    verifications = []
    for number in range(count):
        verifications.append(_with_replaced(disk, verify_partition(disk, paths.partition(number))))
        progress(number + 1, count)
    return verifications


def report_of(verifications: list[PartitionVerification]) -> TopicReport:
    """Combines the verifications of all partitions, ordered by number, into one report."""
    return join_topic([findings_of(number, item) for number, item in enumerate(verifications)])


def _findings(
    number: int, plan: PartitionPlan, segments: Sequence[TopicFinding | None]
) -> PartitionFindings:
    """Returns the findings of one partition, without segments that were removed meanwhile."""
    remaining = [segment for segment in segments if segment is not None]
    return PartitionFindings(
        number, plan.problems, plan.notes, remaining, plan.next_offset, plan.is_missing
    )


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
            runner.sleep_ns(_LOOK_AGAIN_NS)  # the active segment may have changed meanwhile
            plan = plan_partition(disk, paths, is_live=is_live)
        if plan.is_missing and not _is_there(disk, root, name, identity.topic_id):
            raise _no_topic(root, name)
    except NotFound:
        if _is_there(disk, root, name, identity.topic_id):
            raise
        raise _no_topic(root, name) from None
    return plan


def _is_there(disk: Disk, root: str, name: str, topic_id: str) -> bool:
    """Whether the topic still exists, even with a damaged `topic.json`.

    A new topic of the same name does not count.
    """
    try:
        return load_identity(disk, TopicPaths(root, name)).topic_id == topic_id
    except NotFound:
        return False
    except (DataError, BadConfig):
        return True


def _no_topic(root: str, name: str) -> NotFound:
    return NotFound(f"{root}: there is no topic {name} any more: it was deleted during the check")


def _checked_again(
    disk: Disk, paths: PartitionPaths, segment: SegmentVerification
) -> SegmentVerification | None:
    """Checks a segment that looks damaged again, as the manifest lists it now.

    Returns None if the segment was removed or replaced meanwhile.
    """
    try:
        manifest = load_manifest(disk, paths.manifest)
    except (NotFound, DataError):
        return segment
    listed = {entry.base_offset: entry for entry in manifest.segments}
    if segment.base_offset in listed:
        again = verify_segment(disk, paths, listed[segment.base_offset])
        is_there = again.inspection is not None or _is_expected(disk, paths, segment.base_offset)
        return again if is_there else None
    if segment.inspection is None:
        return segment if _is_expected(disk, paths, segment.base_offset) else None
    return None if segment.is_sealed else segment


def _is_expected(disk: Disk, paths: PartitionPaths, base_offset: int) -> bool:
    """Whether a segment whose file is missing is still a part of the partition."""
    plan = plan_partition(disk, paths, is_live=True)
    return any(segment.base_offset == base_offset for segment in plan.segments)


def _is_suspect(segment: SegmentVerification) -> bool:
    return segment.verdict is Verdict.CORRUPT or bool(segment.index_problems)


def _without_tail(segment: SegmentVerification) -> SegmentVerification:
    """Removes a torn tail and index problems from the findings of the active segment.

    They do not count as damage, because a write may be in progress. Findings of other segments are
    returned unchanged.
    """
    if segment.is_sealed or segment.inspection is None:
        return segment
    inspection = segment.inspection
    if inspection.verdict is Verdict.TORN:
        inspection = replace(inspection, verdict=Verdict.WHOLE, tail=None, header_error=None)
    return replace(segment, inspection=inspection, index_problems=())


def _with_replaced(disk: Disk, verification: PartitionVerification) -> PartitionVerification:
    """Turns problems of segments that compaction has just replaced into notes."""
    segments, notes = [], list(verification.notes)
    for segment in verification.segments:
        if _is_replaced(disk, segment):
            notes.append(_replaced_note(segment))
            segments.append(_as_replaced(segment))
        else:
            segments.append(segment)
    return replace(verification, segments=tuple(segments), notes=tuple(notes))


def _as_replaced(segment: SegmentVerification) -> SegmentVerification:
    assert segment.inspection is not None
    whole = replace(segment.inspection, verdict=Verdict.WHOLE, damages=())
    return replace(segment, inspection=whole, index_problems=())


def _replaced_note(segment: SegmentVerification) -> str:
    return f"{segment.path}: compaction replaced the file, and the manifest does not list it yet"


def _is_replaced(disk: Disk, segment: SegmentVerification) -> bool:
    """Whether compaction replaced the log file: it is whole, but shorter than in the manifest.

    A file that was truncated lacks the segment's last offset; a file that compaction wrote always
    has that offset.
    """
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
