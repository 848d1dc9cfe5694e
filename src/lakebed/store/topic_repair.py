"""Repairing a topic: what is damaged is saved in the quarantine and left out; the loss is stated.

Opening a topic for writing mends the newest segment of each partition, and those that differ from
the manifest. The sealed ones that it believes are verified here first, and rewritten without their
bad bytes if there are any. What is whole stays, under the same offsets.
"""

from __future__ import annotations

import contextlib
import os
from typing import NamedTuple

from lakebed.aof.manager import LOCK_NAME
from lakebed.base.damage import Verdict
from lakebed.base.errors import NotFound
from lakebed.base.files import Disk
from lakebed.keratin.partition import Partition
from lakebed.keratin.paths import TopicPaths
from lakebed.keratin.repair import repair_segment
from lakebed.keratin.verify import PartitionVerification
from lakebed.store.read_only_topic import require_topic
from lakebed.store.store import QUARANTINE_NAME, Store
from lakebed.store.topic_verification import (
    LostOffsets,
    Progress,
    TopicReport,
    report_of,
    verify_alone,
    verify_topic,
)


class TopicRepair(NamedTuple):
    """What was done, or would be."""

    torn_bytes: int  # behind the last good record: cut
    problems: tuple[str, ...]
    lost: tuple[LostOffsets, ...]
    quarantined: tuple[str, ...]  # files with the bytes that were left out


def repair_topic(store: Store, name: str, *, progress: Progress) -> TopicRepair:
    """`Busy` if the topic is open: nobody must use it. Whoever wants to meanwhile waits."""
    require_topic(store.disk, TopicPaths(store.root, name))
    with store.topics.before_opening(name) as open_topic:
        before = _quarantine(store.disk, store.root)
        found = verify_alone(store.disk, store.root, name, progress=progress)
        foreseen = _foreseen(report_of(found))
        for number, verification in enumerate(found):
            if verification.verdict is Verdict.CORRUPT:
                # Opening believes it, and so would not look at what is damaged.
                with contextlib.suppress(NotFound):
                    store.disk.unlink(TopicPaths(store.root, name).partition(number).checkpoint)
        topic = open_topic()
        problems, saved = list(foreseen.problems), set[str]()
        for partition, verification in zip(topic.partitions, found, strict=True):
            problems += partition.problems
            saved |= _repair_sealed(store.disk, partition, verification)
    saved |= _quarantine(store.disk, store.root) - before  # by the opening
    return foreseen._replace(
        problems=tuple(dict.fromkeys(problems)), quarantined=tuple(sorted(saved))
    )


def foresee_topic(disk: Disk, root: str, name: str, *, progress: Progress) -> TopicRepair:
    """What `repair_topic` would find; nothing is changed. `Locked` if somebody writes."""
    lock = disk.lock(os.path.join(root, LOCK_NAME))
    try:
        return _foreseen(report_of(verify_alone(disk, root, name, progress=progress)))
    finally:
        lock.release()


def foresee_topic_beside(store: Store, name: str, *, progress: Progress) -> TopicRepair:
    """The same of a topic that may be in use: up to its durable end."""
    return _foreseen(
        verify_topic(store.disk, store.root, name, runner=store.runner, progress=progress)
    )


def _foreseen(report: TopicReport) -> TopicRepair:
    torn = [problem for problem in report.problems if problem.verdict == Verdict.TORN.value]
    lasting = [problem for problem in report.problems if problem.verdict != Verdict.TORN.value]
    return TopicRepair(
        torn_bytes=sum(problem.length for problem in torn),
        problems=tuple(map(str, lasting)),
        lost=report.lost,
        quarantined=(),
    )


def _repair_sealed(disk: Disk, partition: Partition, found: PartitionVerification) -> set[str]:
    """The files in the quarantine."""
    saved: set[str] = set()
    damaged = {one.base_offset for one in found.segments if one.verdict is Verdict.CORRUPT}
    for info in partition.segments():
        if not info.is_sealed or info.base_offset not in damaged:
            continue
        repaired = repair_segment(
            disk,
            partition.paths,
            info,
            index_stride_bytes=partition.config.index_stride_bytes,
            created_ms=partition.now_ms(),
        )
        if repaired is not None:  # or opening the partition has done it
            partition.exchange(repaired.rewritten)
            saved.update(repaired.saved)
    return saved


def _quarantine(disk: Disk, root: str) -> set[str]:
    folder = os.path.join(root, QUARANTINE_NAME)
    names = disk.names(folder) if disk.is_folder(folder) else []
    return {os.path.join(folder, name) for name in names}
