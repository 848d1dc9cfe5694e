"""Repairing a topic: what is damaged is saved in the quarantine and left out; the loss is stated.

Opening a topic for writing mends the newest segment of each partition, and those that differ from
the manifest. The sealed ones that it believes are verified here first, and rewritten without their
bad bytes if there are any. What is whole stays, under the same offsets.
"""

from __future__ import annotations

import contextlib
import os
from dataclasses import replace
from random import Random
from typing import NamedTuple

from lakebed.aof.manager import LOCK_NAME
from lakebed.base.damage import Verdict
from lakebed.base.damage_ledger import QUARANTINE_NAME, TOPICS, Loss
from lakebed.base.errors import Corrupt, LakebedError, NotFound, UnknownVersion
from lakebed.base.files import Disk, read_file
from lakebed.base.files.quarantine import save_in_quarantine
from lakebed.base.progress import Progress
from lakebed.base.units import MIB
from lakebed.keratin.identity import TopicIdentity, rebuilt_identity, save_identity
from lakebed.keratin.partition import Partition
from lakebed.keratin.partition_verification import PartitionVerification
from lakebed.keratin.paths import IDENTITY_NAME, TopicPaths
from lakebed.keratin.repair import repair_segment
from lakebed.kernels import crc32c
from lakebed.store.dead_letters import dead_letter_topic, origin_of
from lakebed.store.read_only_topic import require_topic
from lakebed.store.store import Store
from lakebed.store.topic_verification import (
    LostOffsets,
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
    paths = TopicPaths(store.root, name)
    with store.topics.before_opening(name) as open_topic:
        before = _quarantine(store.disk, store.root)
        identity, lost = _identity(store.disk, paths)
        if lost is not None:
            saved_file = _save_damaged(store.disk, paths)
            store.damage.record(
                Loss(
                    engine=TOPICS,
                    name=name,
                    path=paths.identity,
                    problem="lost or damaged: the topic's settings are gone",
                    saved=saved_file,
                )
            )
            identity = replace(identity, topic_id=_id_in_letters(store, name) or identity.topic_id)
            save_identity(store.disk, paths, identity)
        found = verify_alone(store.disk, paths, identity.partition_count, progress=progress)
        foreseen = _preview(report_of(found), lost)
        for number, verification in enumerate(found):
            folder = paths.partition(number)
            if verification.is_missing:
                store.damage.record(
                    Loss(
                        engine=TOPICS,
                        name=name,
                        partition=number,
                        path=folder.folder,
                        problem="the folder was missing: all messages are lost",
                    )
                )
                folder.ensure(store.disk)
            elif verification.verdict is Verdict.CORRUPT:
                # Opening believes it, and so would not look at what is damaged.
                with contextlib.suppress(NotFound):
                    store.disk.unlink(folder.checkpoint)
        topic = open_topic()
        problems, saved = list(foreseen.problems), set[str]()
        for partition, verification in zip(topic.partitions, found, strict=True):
            problems += partition.problems
            saved |= _repair_sealed(store.disk, partition, verification)
    saved |= _quarantine(store.disk, store.root) - before  # by the opening
    return foreseen._replace(
        problems=tuple(dict.fromkeys(problems)), quarantined=tuple(sorted(saved))
    )


def preview_topic_repair(disk: Disk, root: str, name: str, *, progress: Progress) -> TopicRepair:
    """What `repair_topic` would find; nothing is changed. `Locked` if somebody writes."""
    paths = TopicPaths(root, name)
    lock = disk.lock(os.path.join(root, LOCK_NAME))
    try:
        identity, lost = _identity(disk, paths)
        found = verify_alone(disk, paths, identity.partition_count, progress=progress)
        return _preview(report_of(found), lost)
    finally:
        lock.release()


def preview_topic_while_open(store: Store, name: str, *, progress: Progress) -> TopicRepair:
    """The same of a topic that may be in use: up to its durable end."""
    return _preview(
        verify_topic(store.disk, store.root, name, runner=store.runner, progress=progress)
    )


def _identity(disk: Disk, paths: TopicPaths) -> tuple[TopicIdentity, str | None]:
    """What the topic is; made anew if its file is lost or damaged, and then what that means."""
    try:
        return require_topic(disk, paths), None
    except UnknownVersion:
        raise
    except Corrupt as error:
        if disk.is_symlink(paths.folder):
            raise
        identity = rebuilt_identity(disk, paths, Random())
        what = error.problem.partition(":")[0]
        count = identity.partition_count
    return identity, (
        f"{paths.identity}: {what}: written again with {count} "
        f"partition{'s' * (count > 1)}, by the folders; its settings are lost: the store's "
        f"defaults count until lakebed topic configure {paths.topic} sets others"
    )


def _id_in_letters(store: Store, name: str) -> str | None:
    """The topic's id as its newest dead letter has it. With another one its letters would be taken
    for those of an earlier topic, and not be sent back."""
    found: list[tuple[int, str]] = []
    with contextlib.suppress(LakebedError):
        for partition in store.topics.open(dead_letter_topic(name)).partitions:
            last = max(partition.start_offset(), partition.high_watermark() - 1)
            for message in partition.scan_from(last):
                origin = origin_of(message)
                if origin is not None and origin.topic == name and origin.topic_id:
                    found.append((message.timestamp_ms, origin.topic_id))
    return max(found)[1] if found else None


def _save_damaged(disk: Disk, paths: TopicPaths) -> tuple[str, ...]:
    """A `topic.json` that cannot be read, before another one takes its place; where, if there is
    one."""
    try:
        data = read_file(disk, paths.identity, size_max=MIB)
    except NotFound:
        return ()
    name = f"keratin-{paths.topic}-{IDENTITY_NAME}-{crc32c(data):08x}.bin"
    return (save_in_quarantine(disk, os.path.join(paths.root, QUARANTINE_NAME), name, data),)


def _preview(report: TopicReport, lost: str | None = None) -> TopicRepair:
    torn = [problem for problem in report.problems if problem.verdict == Verdict.TORN.value]
    lasting = [problem for problem in report.problems if problem.verdict != Verdict.TORN.value]
    return TopicRepair(
        torn_bytes=sum(problem.length for problem in torn),
        problems=(*(() if lost is None else (lost,)), *map(str, lasting)),
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
            record=partition.record_loss,
        )
        if repaired is not None:  # or opening the partition has done it
            partition.exchange(repaired.rewritten)
            saved.update(repaired.saved)
    return saved


def _quarantine(disk: Disk, root: str) -> set[str]:
    folder = os.path.join(root, QUARANTINE_NAME)
    names = disk.names(folder) if disk.is_folder(folder) else []
    return {os.path.join(folder, name) for name in names}
