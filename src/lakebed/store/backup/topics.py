"""What is copied of a topic: its identity, and of each partition the log up to its durable end.

Of a partition the manifest is read before the segments are listed, and must be the same behind
that, so that it names nothing that is not copied. Segments are copied as far as a reader may read;
behind that is nothing. Indexes are copied of sealed segments alone: the others are made again when
the partition is opened.

A commit of several batches is in the log, the ledger and `commit.bin`, one after the other. They
belong together if the ledger is the same before and behind: then whatever is in the log without
being in the ledger has its `commit.bin`. Otherwise all of it is read again.

A sealed segment that is missing, shorter than the manifest says, or cannot be read, twice in a row
and with all messages pinned, is lost: it is told, and the others are copied.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

from lakebed.base.errors import BadConfig, Busy, DataError, NotFound, UnknownVersion
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
    """What tells it from another of that name; None if there is none, or none that can be read."""
    try:
        return load_identity(disk, TopicPaths(root, topic)).topic_id
    except UnknownVersion:
        raise
    except (NotFound, DataError, BadConfig):
        return None


def copy_topic(
    copier: Copier, disk: Disk, root: str, topic: str, *, runner: Runner, holding: BackupPins
) -> bool:
    """All partitions; False, and nothing, if the topic was deleted meanwhile."""
    paths = TopicPaths(root, topic)
    try:
        identity = load_identity(disk, paths)
        copier.copy(paths.identity)
        for number in range(identity.partition_count):
            _copy_partition(copier, disk, paths.partition(number), runner=runner, holding=holding)
        if load_identity(disk, paths).topic_id == identity.topic_id:
            return True
    except NotFound:
        if disk.exists(paths.identity):
            raise
    copier.forget(f"{copier.name(paths.folder)}/")
    return False


def _copy_partition(
    copier: Copier, disk: Disk, paths: PartitionPaths, *, runner: Runner, holding: BackupPins
) -> None:
    """Again, if something was removed, or finished, while it was looked at."""
    if not disk.is_folder(paths.segments):
        return  # nobody has opened it yet
    pin_id = holding.partition(paths.topic, paths.number)
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
        raise Busy(f"{paths.name}: changes too fast to be copied; try again")
    finally:
        holding.release(pin_id)


def _try_partition(
    copier: Copier, disk: Disk, paths: PartitionPaths, runner: Runner
) -> list[str] | None:
    """What is not as the manifest says; None if that was changed meanwhile."""
    ledger = _read(disk, paths.ledger)
    durable_end, manifest = _read(disk, paths.durable_end), _read(disk, paths.manifest)
    with ReadOnlyPartition(paths, disk=disk, runner=runner) as partition:
        segments = partition.segments()
    with contextlib.ExitStack() as opened:
        commit = _open(disk, paths.commit)
        if commit is not None:
            opened.enter_context(commit)
        # A manifest that lists what was removed meanwhile would tell of a loss.
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
    # Whoever shortens the partition by hand asks for no pins: some files may be gone already.
    is_same = _start(_read(disk, paths.manifest)) == _start(manifest)
    return lost if is_same else None


def _copy_segments(
    copier: Copier, disk: Disk, paths: PartitionPaths, segments: Sequence[PartitionSegment]
) -> list[str]:
    """What of them is missing."""
    lost = []
    for info in segments:
        if info.end <= RECORDS_START and not disk.exists(info.path):
            continue  # begun, with nothing in it that counts
        try:
            copier.copy(info.path, end=info.end, is_sealed=info.is_sealed)
        except NotFound:
            lost.append(f"{info.path}: is missing")
        except Unreadable as error:
            lost.append(str(error))
        except SourceChanged:
            lost.append(f"{info.path}: is shorter than the {info.end} bytes it had")
            copier.copy(info.path)
        for file in _BESIDE:
            if info.is_sealed or file is SegmentFile.PRODUCERS:
                with contextlib.suppress(NotFound):
                    path = paths.segment(info.base_offset, file)
                    copier.copy(path, is_sealed=info.is_sealed)
    return lost


def _start(manifest: bytes | None) -> int | None:
    """The first offset that is kept, if the manifest tells."""
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
