"""Runs one pass of key compaction over sealed segments, as decided by `compaction`.

Segments are rewritten from the oldest to the newest. So a tombstone is removed after, or together
with, the messages that it deletes, and an interrupted pass brings no deleted message back.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from lakebed.base.files import Disk
from lakebed.keratin.compaction import KEYS_MAX, SegmentChoice, Survivors
from lakebed.keratin.log_bytes import open_log
from lakebed.keratin.paths import PartitionPaths
from lakebed.keratin.segment_rewrite import RewrittenSegment, rewrite_segment, whole_runs
from lakebed.keratin.view import PartitionSegment


def compact(
    disk: Disk,
    paths: PartitionPaths,
    segments: Sequence[PartitionSegment],
    *,
    now_ms: int,
    tombstone_ms: int,
    index_stride_bytes: int,
    keys_max: int = KEYS_MAX,
) -> Iterator[RewrittenSegment]:
    """Compacts `segments`, which must be all sealed segments of the partition, oldest first.

    Yields each segment as soon as it is rewritten, so that the caller can update the segment list
    and the manifest before the next segment is rewritten. All segments are read before the first is
    rewritten: if a segment is damaged, this raises `Torn` or `Corrupt` before anything is changed.
    The segment must then be repaired first.
    """
    survivors = Survivors(keys_max=keys_max)
    newest_ms: list[int] = []
    numbers: list[int] = []  # the number of each segment's first message
    is_noted = False
    while not is_noted:
        newest_ms.clear()
        numbers.clear()
        for info in segments:
            numbers.append(survivors.next_number)
            newest_ms.append(_note(disk, info, survivors))
        is_noted = survivors.end_pass()
    may_drop = True
    for info, newest, number in zip(segments, newest_ms, numbers, strict=True):
        choice = SegmentChoice(
            survivors,
            info.path,
            first_number=number,
            drops_tombstones=may_drop and now_ms - newest > tombstone_ms,
        )
        rewritten = rewrite_segment(
            disk, paths, info, choice, index_stride_bytes=index_stride_bytes
        )
        if rewritten is not None:
            yield rewritten
        elif choice.leaves_out:
            # The new segment would not be smaller, so the old one stays with all its messages.
            # Tombstones in newer segments must stay as well, because they may delete these.
            may_drop = False


def _note(disk: Disk, info: PartitionSegment, survivors: Survivors) -> int:
    """Passes every record of a segment to `survivors`; returns the largest timestamp."""
    newest_ms = 0
    log = open_log(disk, info.path, base_offset=info.base_offset, is_sealed=True)
    try:
        log.header()
        for run in whole_runs(log, info):
            survivors.note(run, path=info.path)
            newest_ms = max(newest_ms, *run.timestamps_ms)
    finally:
        log.close()
    return newest_ms
