"""Copies a log into a backup: its identity, manifest log, archive, and segments in Tiers 0 and 1.

The manifest log (the record of the segments and their tiers) is copied before the segments.
Segments that it does not record yet are added to it when the restored log is opened, as after a
crash. All segments are pinned before anything is read, until the objects are copied, so that
segments which are in Tier 2 according to the manifest log are still there. A move between tiers
that began before the pin may still complete: if a segment that is not in Tier 2 according to the
manifest log is not in the copy, the whole log is copied again.

A sealed segment is copied completely, other segments up to their durable end; the bytes after that
are zeros in the copy. The durability cursor is only a hint and spare files are empty, so neither is
copied.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

from lakebed.aof.format import records_end_max
from lakebed.aof.identity import OWN_FOLDER, OWN_STORE, load_identity
from lakebed.aof.manifest.paths import ManifestPaths
from lakebed.aof.manifest.reader import ManifestReader
from lakebed.aof.manifest.replay import replay
from lakebed.aof.manifest.state import Residency
from lakebed.aof.paths import SPARE_SUFFIX, LogPaths
from lakebed.aof.read_only import ReadOnlyLog
from lakebed.aof.record_id import RecordId
from lakebed.aof.view import SegmentInfo
from lakebed.base.errors import Busy, DataError, DiskError, NotFound, UnknownVersion
from lakebed.base.files import TEMPORARY_SUFFIX, Disk, read_file
from lakebed.base.units import MIB
from lakebed.store.backup.copy import Copier, SourceChanged
from lakebed.store.manifest_logs import stream_folders
from lakebed.store.number_list import number_list
from lakebed.store.read_only import ReadOnlyStore

TRIES_MAX = 10
SAME_ERRORS_MAX = 3  # an error that occurs this often is damage, not a move between tiers
_SMALL_BYTES_MAX = MIB
_CURSORS_NAME = "durability"


def copy_log(copier: Copier, store: ReadOnlyStore, name: str) -> None:
    """Copies a log, whose segments the caller has pinned; repeats the copy if segments move.

    Raises `Busy` if the log changes too fast to be copied, and `NotFound` or `SourceChanged` if a
    file is missing or too short again and again. Segments that are lost are only reported.
    """
    paths = LogPaths(store.root, name)
    missing_before: list[int] | None = None
    errors: list[str] = []
    for _ in range(TRIES_MAX):
        copier.forget(f"{copier.name(paths.folder)}/")
        try:
            missing = _try_log(copier, store, paths)
        except (NotFound, SourceChanged) as error:
            errors.append(str(error))
            is_lasting = errors.count(errors[-1]) == SAME_ERRORS_MAX
            if is_lasting or not store.disk.is_folder(paths.segments):
                raise
            continue
        if not missing:
            return
        if missing == missing_before:  # lost, not moved
            copier.problems.append(f"the log {name}: segments are missing: {number_list(missing)}")
            return
        missing_before = missing
    raise Busy(f"the log {name} changes too fast to be copied; try the backup again later")


def external_tier2(disk: Disk, root: str, name: str) -> str | None:
    """Returns the address of a log's Tier 2 if that is outside the root, else None.

    Also returns None if `log.json`, which has the address, is missing, damaged or unreadable.
    """
    try:
        address = load_identity(disk, LogPaths(root, name)).tier2
    except (NotFound, DataError, DiskError):
        return None
    return None if address in (OWN_FOLDER, OWN_STORE) else address


def _try_log(copier: Copier, store: ReadOnlyStore, paths: LogPaths) -> list[int]:
    """Copies a log once; returns the ids of segments that are neither in the copy nor in Tier 2.

    These segments moved to another tier meanwhile, or are lost.
    """
    disk = store.disk
    expected = _copy_manifest(copier, disk, paths)
    for path in (paths.identity, paths.pointer, paths.durable_end):
        if disk.exists(path):
            copier.add(path, read_file(disk, path, size_max=_SMALL_BYTES_MAX))
    with ReadOnlyLog(
        store.root, paths.name, disk=disk, runner=store.runner, services=store.tiers
    ) as log:
        end = log.durable_end()
        log.refresh()
        segments = [info for info in log.segments() if os.path.dirname(info.path) == paths.segments]
    _copy_segments(copier, disk, segments, end)
    for folder in (paths.archive, paths.warm):
        _copy_whole(copier, disk, folder)
    _copy_indexes(copier, disk, paths)
    return _missing(copier, paths, expected)


def _copy_manifest(copier: Copier, disk: Disk, paths: LogPaths) -> dict[int, int]:
    """Copies the manifest logs; returns the tiers of the sealed segments in them, by segment id."""
    residency: dict[int, int] = {}
    for stream in stream_folders(disk, paths):
        manifest = ManifestPaths(os.path.join(paths.manifest, stream))
        reader = ManifestReader(disk, manifest)
        for snapshot_id in reader.snapshot_ids():
            copier.copy(manifest.snapshot(snapshot_id), is_sealed=True)
        indexes = reader.chunk_indexes()
        for index in indexes:
            is_last = index == indexes[-1]
            judged = reader.chunk(index, is_last=is_last)
            if judged.is_sealed or not is_last or judged.problem:
                copier.copy(manifest.chunk(index), is_sealed=judged.is_sealed)
            else:
                data = bytes(judged.data)
                copier.add(manifest.chunk(index), data[: judged.end], size=len(data))
        _copy_whole(copier, disk, os.path.join(manifest.folder, "bundles"))
        try:
            states = replay(reader).index.segments()
            residency |= {state.segment_id: state.residency for state in states if state.is_sealed}
        except UnknownVersion:
            raise
        except DataError:
            continue  # damaged: it is copied as it is, but has no usable states
    return residency


def _copy_segments(
    copier: Copier, disk: Disk, segments: Sequence[SegmentInfo], end: RecordId
) -> None:
    for info in segments:
        is_last = info.segment_id == end.segment_index
        if not info.is_sealed and info.segment_id > end.segment_index:
            continue  # nothing in it is durable
        with disk.open(info.path) as file:
            name, size = copier.name(info.path), file.size()
            stored_end = end.segment_offset if is_last else info.end or 0
            if stored_end > size:
                problem = f"{info.path}: is shorter than the {stored_end} bytes it should have"
                copier.problems.append(problem)
                copier.copy_open(name, file)
            elif info.is_sealed:
                copier.copy_open(name, file, is_sealed=True)
            else:
                stored_end = stored_end if is_last else records_end_max(size)
                copier.copy_open(name, file, end=stored_end, size=size)


def _copy_indexes(copier: Copier, disk: Disk, paths: LogPaths) -> None:
    """Copies the indexes: all files in the folder `segments` that are no segments or spare files.

    The sealed pointer and temporary files are left out too.
    """
    for name in disk.names(paths.segments):
        is_other = name.endswith((".seg", SPARE_SUFFIX, TEMPORARY_SUFFIX))
        path = os.path.join(paths.segments, name)
        if not is_other and path != paths.pointer:
            copier.copy(path)


def _copy_whole(copier: Copier, disk: Disk, folder: str) -> None:
    """Copies the files of a folder, if it exists; each file is complete as soon as it has its name.

    Temporary files and durability cursors are left out.
    """
    if disk.is_folder(folder):
        for name in disk.names(folder):
            if not name.endswith(TEMPORARY_SUFFIX) and name != _CURSORS_NAME:
                copier.copy(os.path.join(folder, name), is_sealed=True)


def _missing(copier: Copier, paths: LogPaths, residency: dict[int, int]) -> list[int]:
    """Returns the ids of the segments in `residency` that are neither in Tier 2 nor in the copy."""
    prefix = f"{copier.name(paths.folder)}/"
    copied = {
        name.rpartition("/")[2][:20]
        for name in copier.files
        if name.startswith(prefix) and name.endswith((".seg", ".zst"))
    }
    return [
        segment_id
        for segment_id, tiers in residency.items()
        if tiers and not tiers & Residency.TIER2 and f"{segment_id:020}" not in copied
    ]
