"""Repairs a topic: copies damaged bytes to the quarantine, removes them, and records the loss.

Opening a topic for writing repairs the newest segment of each partition, and the segments that
differ from the manifest, but trusts the other sealed segments. A repair also verifies those, and
rewrites them without their damaged bytes. Whole messages are kept, with the same offsets.
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
    """What a repair did, or what it would do."""

    torn_bytes: int  # how many bytes of unfinished writes were, or would be, removed
    problems: tuple[str, ...]  # the other damage
    lost: tuple[LostOffsets, ...]
    quarantined: tuple[str, ...]  # files with copies of the removed bytes; none in a preview


def repair_topic(store: Store, name: str, *, progress: Progress) -> TopicRepair:
    """Repairs a topic, and leaves it open for writing.

    Raises `Busy` if the topic is open and all its partitions can be opened. If one cannot, the
    topic is closed first, and then repaired. Callers that open the topic meanwhile wait until the
    repair is done. Raises `NotFound` if there is no such topic.
    """
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
                    problem="the file was missing or damaged: the topic's settings are lost",
                    saved=saved_file,
                )
            )
            identity = replace(identity, topic_id=_id_in_letters(store, name) or identity.topic_id)
            save_identity(store.disk, paths, identity)
        verifications = verify_alone(store.disk, paths, identity.partition_count, progress=progress)
        foreseen = _preview(report_of(verifications), lost)
        for number, verification in enumerate(verifications):
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
                # With a checkpoint, opening would trust the damaged segment and not scan it.
                with contextlib.suppress(NotFound):
                    store.disk.unlink(folder.checkpoint)
        topic = open_topic()
        problems, saved = list(foreseen.problems), set[str]()
        for partition, verification in zip(topic.partitions, verifications, strict=True):
            problems += partition.problems
            saved |= _repair_sealed(store.disk, partition, verification)
    saved |= _quarantine(store.disk, store.root) - before  # files that opening the topic saved
    return foreseen._replace(
        problems=tuple(dict.fromkeys(problems)), quarantined=tuple(sorted(saved))
    )


def preview_topic_repair(disk: Disk, root: str, name: str, *, progress: Progress) -> TopicRepair:
    """Reports what `repair_topic` would find; changes nothing.

    Raises `NotFound` if there is no such topic, and `Locked` if a process has the store open for
    writing.
    """
    paths = TopicPaths(root, name)
    lock = disk.lock(os.path.join(root, LOCK_NAME))
    try:
        identity, lost = _identity(disk, paths)
        verifications = verify_alone(disk, paths, identity.partition_count, progress=progress)
        return _preview(report_of(verifications), lost)
    finally:
        lock.release()


def preview_topic_while_open(store: Store, name: str, *, progress: Progress) -> TopicRepair:
    """Reports what `repair_topic` would find in a topic that may be in use; changes nothing.

    The topic is verified up to its durable end. Raises `Corrupt` if `topic.json` is missing or
    damaged, although `repair_topic` would rebuild it.
    """
    return _preview(
        verify_topic(store.disk, store.root, name, runner=store.runner, progress=progress)
    )


def _identity(disk: Disk, paths: TopicPaths) -> tuple[TopicIdentity, str | None]:
    """Returns a topic's identity, and a text that describes the loss if it had to be rebuilt.

    The identity is rebuilt if `topic.json` is missing or damaged; otherwise the text is None.
    """
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
        f"{paths.identity}: {what}: rebuilt from the folders with {count} "
        f"partition{'s' * (count > 1)}; the topic's settings are lost and the store's defaults "
        f"apply: set them again with lakebed topic configure {paths.topic}"
    )


def _id_in_letters(store: Store, name: str) -> str | None:
    """Returns the topic's id from its newest dead letter; None if no dead letter has the id.

    With a new id for the topic, its dead letters would seem to be those of an earlier topic, and
    would never be sent back.
    """
    ids: list[tuple[int, str]] = []
    with contextlib.suppress(LakebedError):
        for partition in store.topics.open(dead_letter_topic(name)).partitions:
            last = max(partition.start_offset(), partition.high_watermark() - 1)
            for message in partition.scan_from(last):
                origin = origin_of(message)
                if origin is not None and origin.topic == name and origin.topic_id:
                    ids.append((message.timestamp_ms, origin.topic_id))
    return max(ids)[1] if ids else None


def _save_damaged(disk: Disk, paths: TopicPaths) -> tuple[str, ...]:
    """Copies a damaged `topic.json` to the quarantine before it is replaced.

    Returns the path of the copy; an empty tuple if there is no file.
    """
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


def _repair_sealed(
    disk: Disk, partition: Partition, verification: PartitionVerification
) -> set[str]:
    """Rewrites the sealed segments that `verification` found to be damaged, without the bad bytes.

    Returns the paths of the quarantine files with the removed bytes.
    """
    saved: set[str] = set()
    damaged = {
        segment.base_offset
        for segment in verification.segments
        if segment.verdict is Verdict.CORRUPT
    }
    for info in partition.segments():
        if not info.is_sealed or info.base_offset not in damaged:
            continue
        repaired = repair_segment(
            disk,
            partition.paths,
            info,
            start_offset=partition.start_offset(),
            index_stride_bytes=partition.config.index_stride_bytes,
            created_ms=partition.now_ms(),
            record=partition.record_loss,
        )
        if repaired is not None:  # None if opening the partition has repaired it
            partition.exchange(repaired.rewritten)
            saved.update(repaired.saved)
    return saved


def _quarantine(disk: Disk, root: str) -> set[str]:
    folder = os.path.join(root, QUARANTINE_NAME)
    names = disk.names(folder) if disk.is_folder(folder) else []
    return {os.path.join(folder, name) for name in names}
