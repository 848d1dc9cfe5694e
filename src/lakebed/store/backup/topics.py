"""Copies a topic into a backup: its identity, and each partition up to its durable end.

The manifest of a partition is read before its segments are listed, and must be unchanged after
that, so that it names no segment that is not copied. Segments are copied up to the durable end.
Indexes are copied only for sealed segments: opening the restored partition builds the others.

A batch commit writes `commit.bin`, the log and the ledger (`commits.json`) one after another. Their
copies are consistent if the ledger is the same before the segments are listed and after
`commit.bin` is opened: then every batch of a commit that is in the log but not in the ledger is in
`commit.bin`. Otherwise the partition is copied again.

If a segment is missing, unreadable, or shorter than it should be in two attempts in a row, although
all messages are pinned, it is lost. That is reported, and the other segments are copied.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

from lakebed.base.errors import (
    BadConfig,
    Busy,
    DataError,
    DiskError,
    NotFound,
    UnknownVersion,
)
from lakebed.base.files import Disk, File, read_file
from lakebed.base.runner import Runner
from lakebed.base.units import GIB
from lakebed.keratin.format import RECORDS_START
from lakebed.keratin.identity import load_identity
from lakebed.keratin.manifest import decode_manifest
from lakebed.keratin.paths import PartitionPaths, SegmentFile, TopicPaths
from lakebed.keratin.read_only import ReadOnlyPartition
from lakebed.keratin.view import PartitionSegment
from lakebed.store.backup.copy import Copier, SourceChanged, Unreadable
from lakebed.store.backup.pins import BackupPins

TRIES_MAX = 10
_FILE_BYTES_MAX = GIB
_BESIDE = (SegmentFile.INDEX, SegmentFile.TIME_INDEX, SegmentFile.PRODUCERS)


def topic_id(disk: Disk, root: str, topic: str) -> str | None:
    """Returns the id of a topic.

    Returns None if there is no such topic, or its `topic.json` is damaged or unreadable.
    """
    try:
        return load_identity(disk, TopicPaths(root, topic)).topic_id
    except UnknownVersion:
        raise
    except (NotFound, DataError, DiskError, BadConfig):
        return None


def copy_topic(
    copier: Copier, disk: Disk, root: str, topic: str, *, runner: Runner, pins: BackupPins
) -> bool:
    """Copies a topic, and returns True.

    If the topic is deleted meanwhile, leaves it out of the backup and returns False. Raises `Busy`
    if a partition changes too fast to be copied.
    """
    paths = TopicPaths(root, topic)
    try:
        identity = load_identity(disk, paths)
        copier.copy(paths.identity)
        for number in range(identity.partition_count):
            _copy_partition(copier, disk, paths.partition(number), runner=runner, pins=pins)
        if load_identity(disk, paths).topic_id == identity.topic_id:
            return True
    except NotFound:
        if disk.exists(paths.identity):
            raise
    copier.forget(f"{copier.name(paths.folder)}/")
    return False


def _copy_partition(
    copier: Copier, disk: Disk, paths: PartitionPaths, *, runner: Runner, pins: BackupPins
) -> None:
    """Copies a partition; starts again if files were removed or replaced meanwhile.

    Raises `Busy` if the partition changes too fast to be copied.
    """
    if not disk.is_folder(paths.segments):
        return  # the partition was never opened
    pin_id = pins.partition(paths.topic, paths.number)
    lost_before: list[str] | None = None
    try:
        for attempt in range(TRIES_MAX):
            copier.forget(f"{copier.name(paths.folder)}/")
            try:
                lost = _try_partition(copier, disk, paths, runner)
            except (NotFound, SourceChanged):
                if attempt + 1 == TRIES_MAX or not disk.is_folder(paths.segments):
                    raise
                continue
            if lost is not None and (not lost or lost == lost_before):
                copier.problems += lost
                return
            lost_before = lost
        raise Busy(
            f"the partition {paths.name} changes too fast to be copied; try the backup again later"
        )
    finally:
        pins.release(pin_id)


def _try_partition(
    copier: Copier, disk: Disk, paths: PartitionPaths, runner: Runner
) -> list[str] | None:
    """Copies a partition once; returns a text for each segment that is lost.

    Returns None if the copy must be repeated: the manifest or the ledger changed before the
    segments were copied, or the partition's start offset moved while they were copied.
    """
    ledger = _read(disk, paths.ledger)
    durable_end, manifest = _read(disk, paths.durable_end), _read(disk, paths.manifest)
    with ReadOnlyPartition(paths, disk=disk, runner=runner) as partition:
        segments = partition.segments()
    with contextlib.ExitStack() as opened:
        commit = _open(disk, paths.commit)
        if commit is not None:
            opened.enter_context(commit)
        # A manifest that lists segments removed meanwhile would look like a loss.
        if (_read(disk, paths.ledger), _read(disk, paths.manifest)) != (ledger, manifest):
            return None
        for path, data in (
            (paths.durable_end, durable_end),
            (paths.manifest, manifest),
            (paths.ledger, ledger),
        ):
            if data is not None:
                copier.add(path, data)
        if commit is not None:
            copier.copy_open(copier.name(paths.commit), commit)
        lost = _copy_segments(copier, disk, paths, segments)
    # Deleting messages on request ignores pins, so some files may be gone already.
    is_same = _start(_read(disk, paths.manifest)) == _start(manifest)
    return lost if is_same else None


def _copy_segments(
    copier: Copier, disk: Disk, paths: PartitionPaths, segments: Sequence[PartitionSegment]
) -> list[str]:
    """Copies segments; returns a text for each segment that is missing, unreadable or too short."""
    lost = []
    for info in segments:
        if info.end <= RECORDS_START and not disk.exists(info.path):
            continue  # a new segment without durable records
        try:
            copier.copy(info.path, end=info.end, is_sealed=info.is_sealed)
        except NotFound:
            lost.append(f"{info.path}: the file is missing")
        except Unreadable as error:
            lost.append(str(error))
        except SourceChanged:
            lost.append(f"{info.path}: is shorter than the {info.end} bytes it should have")
            copier.copy(info.path)
        for file in _BESIDE:
            if info.is_sealed or file is SegmentFile.PRODUCERS:
                with contextlib.suppress(NotFound):
                    path = paths.segment(info.base_offset, file)
                    copier.copy(path, is_sealed=info.is_sealed)
    return lost


def _start(manifest: bytes | None) -> int | None:
    """Returns the partition's start offset; None if the manifest is missing or damaged."""
    try:
        return None if manifest is None else decode_manifest(manifest, path="").start_offset
    except DataError:
        return None


def _read(disk: Disk, path: str) -> bytes | None:
    try:
        return read_file(disk, path, size_max=_FILE_BYTES_MAX)
    except NotFound:
        return None


def _open(disk: Disk, path: str) -> File | None:
    try:
        return disk.open(path)
    except NotFound:
        return None
