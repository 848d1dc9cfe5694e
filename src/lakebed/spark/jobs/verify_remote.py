"""The job `verify` for a store that is given as an endpoint: checks it over its HTTP API.

- Topics and logs: tasks fetch the stored segments up to the durable end, and check every record
  as if they had the files. A segment of a log is read from the hottest tier that has it, and
  skipped if that is Tier 2 and `tier2` is not set.
- Objects: the node checks them itself, as one job. Fetching objects would check nothing more,
  because the node verifies every byte that it serves.

Not checked: indexes and manifests of partitions, manifest logs, groups, and copies of segments in
colder tiers. `lakebed verify` on the node checks these too.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from lakebed.aof.view import SegmentInfo
from lakebed.base.damage_ledger import DamageRecord
from lakebed.base.errors import LakebedError
from lakebed.base.units import MIB
from lakebed.client.log import RemoteLog
from lakebed.client.store import RemoteStore
from lakebed.seglake.verification_report import Report as LakeReport
from lakebed.spark.backends import Backend
from lakebed.spark.jobs.tasks import grouped, in_tasks
from lakebed.spark.jobs.verify_remote_segments import (
    LogSegment,
    TopicSegment,
    check_log_segment,
    check_topic_segment,
)
from lakebed.spark.jobs.watcher import Watcher
from lakebed.spark.query_watch import watched
from lakebed.store.log_check import LogFinding, LogPlan, join_log
from lakebed.store.store_check import CheckedLog, CheckedTopic, StoreReport, Unchecked
from lakebed.store.topic_report import PartitionFindings, TopicFinding, join_topic

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

UNSEEN = (
    "through an endpoint, indexes, manifests and groups are not checked, and only one copy of each "
    "segment is: run lakebed verify on the node to check everything"
)
_OBJECTS_BYTES = 64 * MIB  # assumed cost of checking all objects, when pieces are divided


class AllObjects(NamedTuple):
    """A piece of work for one task: the node is asked to check all objects of the store."""

    kind: str = "objects-verify"


Piece = LogSegment | TopicSegment | AllObjects
Finding = LogFinding | TopicFinding | LakeReport | Unchecked | None


class Plan(NamedTuple):
    logs: tuple[str, ...]
    topics: tuple[tuple[str, int], ...]  # name and number of partitions
    pieces: tuple[Piece, ...]
    damage: tuple[DamageRecord, ...] = ()  # recorded, not acknowledged
    forgotten_count: int = 0  # losses that the record of damage had no space for


def check_remote(
    spark: SparkSession, backend: Backend, *, tier2: bool, watcher: Watcher
) -> tuple[StoreReport, int]:
    """Checks a store over its HTTP API. Returns the findings, and about how many bytes were
    read from topics, logs and objects.
    """
    watcher.begin("list")
    [plan] = in_tasks(spark, partial(plan_in_task, tier2), [backend])
    sizes = [_size(piece) for piece in plan.pieces]
    groups = grouped(sizes)
    inputs = [plan.pieces[group.start : group.stop] for group in groups]
    count, size_bytes = len(plan.pieces), sum(sizes) - _OBJECTS_BYTES
    with watched(spark, watcher, "verify", total=count, size_bytes=size_bytes, unit="pieces"):
        outputs = in_tasks(spark, partial(check_in_task, backend), inputs)
    findings = [finding for output in outputs for finding in output]
    report = join_remote(plan, findings)
    return report, size_bytes + report.objects.bytes


# These functions run in tasks.


def plan_in_task(tier2: bool, backend: Backend) -> Plan:
    with backend.connect() as store:
        pieces: list[Piece] = []
        logs = store.logs()
        for name in logs:
            log = store.open_log(name)
            pieces += [
                LogSegment(name, info, info.end or _durable_bytes(log, info))
                for info in log.segments()
                if info.tier < 2 or tier2
            ]
        topics = []
        for name in store.topics.names():
            topic = store.topics.open(name)
            topics.append((name, topic.partition_count))
            for number in range(topic.partition_count):
                segments = topic.partition(number).segments()
                pieces += [TopicSegment(name, number, info) for info in segments]
        pieces.append(AllObjects())
        ledger = store.damage.ledger()
        return Plan(
            tuple(logs),
            tuple(topics),
            tuple(pieces),
            ledger.unacknowledged,
            ledger.forgotten_count,
        )


def check_in_task(backend: Backend, pieces: Sequence[Piece]) -> list[Finding]:
    with backend.connect() as store:
        return [_checked(store, piece) for piece in pieces]


def _checked(store: RemoteStore, piece: Piece) -> Finding:
    try:
        if isinstance(piece, LogSegment):
            return check_log_segment(store.open_log(piece.log), piece)
        if isinstance(piece, TopicSegment):
            partition = store.topics.open(piece.topic).partition(piece.partition)
            return check_topic_segment(partition, piece)
        return store.maintenance.verify_objects()
    except LakebedError as error:
        return Unchecked(_what(piece), str(error))


# Joining the findings.


def join_remote(plan: Plan, all_findings: Sequence[Finding]) -> StoreReport:
    of_logs: dict[str, list[LogFinding]] = defaultdict(list)
    of_topics: dict[tuple[str, int], list[TopicFinding]] = defaultdict(list)
    in_other_tiers: dict[str, list[int]] = defaultdict(list)
    objects, unchecked = LakeReport(), []
    for piece, finding in zip(plan.pieces, all_findings, strict=True):
        if isinstance(piece, LogSegment):
            tier = finding.tier if isinstance(finding, LogFinding) else piece.info.tier
            in_other_tiers[piece.log] += [piece.info.segment_id] if tier else []
        if isinstance(finding, Unchecked):
            unchecked.append(finding)
        elif isinstance(finding, LakeReport):
            objects = finding
        elif isinstance(piece, LogSegment) and isinstance(finding, LogFinding):
            of_logs[piece.log].append(finding)
        elif isinstance(piece, TopicSegment) and isinstance(finding, TopicFinding):
            of_topics[piece.topic, piece.partition].append(finding)
    logs = []
    for name in plan.logs:
        plan_of_log = LogPlan(name, (), tuple(in_other_tiers[name]), unread=(), pieces=())
        report = join_log(plan_of_log, of_logs[name])
        logs.append(CheckedLog(name, report, None, report.unreached))
    topics = []
    for name, count in plan.topics:
        findings = [
            PartitionFindings(number, (), (), of_topics[name, number]) for number in range(count)
        ]
        topics.append(CheckedTopic(name, join_topic(findings)))
    return StoreReport(
        tuple(logs),
        tuple(topics),
        objects,
        tuple(dict.fromkeys(unchecked)),
        damage=plan.damage,
        forgotten_count=plan.forgotten_count,
    )


def _what(piece: Piece) -> str:
    if isinstance(piece, LogSegment):
        return f"log {piece.log}, segment {piece.info.segment_id}"
    return piece.path if isinstance(piece, TopicSegment) else "objects"


def _size(piece: Piece) -> int:
    if isinstance(piece, LogSegment):
        return piece.size
    return piece.info.end if isinstance(piece, TopicSegment) else _OBJECTS_BYTES


def _durable_bytes(log: RemoteLog, info: SegmentInfo) -> int:
    return log.segment_bytes(info.segment_id, length=1).size
