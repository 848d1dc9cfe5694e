"""Repairs a manifest log so that it can be written again.

The last bytes of the open chunk may be only in the page cache, and bytes of an unfinished write may
follow them. So the good records of the open chunk are written again, everything after them is
overwritten with zeros, and both are synced. Before that, damaged chunks are copied to the
quarantine folder; only the open chunk is changed.

The repair may be interrupted at any point; running it again gives the same result.
"""

from __future__ import annotations

import os

from lakebed.aof.manifest.chunk import Verdict
from lakebed.aof.manifest.format import RECORDS_START
from lakebed.aof.manifest.paths import ManifestPaths
from lakebed.aof.manifest.replay import ReplayResult
from lakebed.aof.manifest.sink import OpenChunk
from lakebed.base.files import Disk, make_folders, remove_temporaries, replace_atomically
from lakebed.kernels import crc64nvme


def repair(
    disk: Disk, paths: ManifestPaths, replayed: ReplayResult, *, quarantine: str
) -> OpenChunk | None:
    """Repairs the files, and returns the chunk to which the next record is added.

    Returns None if the next record must start a new chunk. Sets `replayed.end` to the position of
    the next record.
    """
    if disk.exists(paths.folder):
        remove_temporaries(disk, paths.folder)
    for damage in replayed.damages:
        path = paths.chunk(damage.chunk_index)
        if disk.exists(path):
            _save(disk, paths, damage.chunk_index, quarantine)
    last = replayed.last
    if last is not None and last.verdict is Verdict.CORRUPT and not last.is_sealed:
        _save(disk, paths, last.chunk_index, quarantine)
    end = replayed.end
    if last is None or last.is_sealed or (last.chunk_index, last.end) < end:
        # The last chunk is sealed, or a snapshot covers records that it has lost. New records must
        # not get the positions of lost ones, so they start a new chunk.
        if end.offset > RECORDS_START or (last is not None and last.chunk_index >= end.chunk_index):
            replayed.end = end._replace(chunk_index=end.chunk_index + 1, offset=RECORDS_START)
        return None
    chunk = OpenChunk(
        last.chunk_index,
        base_record=replayed.next_ordinal - len(last.records),
        end=last.end,
        crc64=crc64nvme(last.data[RECORDS_START : last.end]),
        is_named=True,
    )
    with disk.open(paths.chunk(last.chunk_index), writable=True) as file:
        used = len(bytes(last.data).rstrip(b"\0"))
        file.pwrite(0, chunk.header() + bytes(last.data[RECORDS_START : last.end]))
        if used > last.end:
            file.zero_fill(last.end, used - last.end)
        file.sync()
    disk.sync_folder(paths.folder)
    return chunk


def _save(disk: Disk, paths: ManifestPaths, chunk_index: int, quarantine: str) -> None:
    """Copies the chunk to the quarantine folder, unless an earlier repair has done so."""
    make_folders(disk, quarantine)
    stream = os.path.basename(paths.folder)
    target = os.path.join(quarantine, f"manifest-{stream}-{chunk_index:020}.mlog")
    if not disk.exists(target):
        with disk.open(paths.chunk(chunk_index)) as file:
            replace_atomically(disk, target, file.pread(0, file.size()))
