"""One pass of key compaction over sealed segments: what `compaction` decides, carried out.

Segments are rewritten from the oldest to the newest: a tombstone goes after, or together with,
everything that it deletes, so that a pass which is cut short brings nothing back.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from lakebed.base.files import Disk
from lakebed.keratin.compaction import KEYS_MAX, Survivors
from lakebed.keratin.log_bytes import open_log
from lakebed.keratin.paths import PartitionPaths
from lakebed.keratin.rewriting import Kept, Rewritten, rewrite_segment, whole_runs
from lakebed.keratin.run import Run
from lakebed.keratin.view import SegmentInfo


def compact(
    disk: Disk,
    paths: PartitionPaths,
    segments: Sequence[SegmentInfo],
    *,
    now_ms: int,
    tombstone_ms: int,
    index_stride_bytes: int,
    keys_max: int = KEYS_MAX,
) -> Iterator[Rewritten]:
    """Compact the segments, which are all the sealed ones, oldest first.

    What was rewritten is given at once, for the list of segments and the manifest to be changed
    before the next one. `Corrupt`, before anything is changed, if one is damaged: repair it first.
    """
    survivors = Survivors(keys_max=keys_max)
    newest_ms = [_note(disk, info, survivors) for info in segments]
    may_drop = True
    for info, newest in zip(segments, newest_ms, strict=True):
        if survivors.covered_end is not None and info.base_offset >= survivors.covered_end:
            return
        drops_tombstones = may_drop and now_ms - newest > tombstone_ms

        choice = _Choice(survivors, info.path, drops_tombstones=drops_tombstones)
        rewritten = rewrite_segment(
            disk, paths, info, choice, index_stride_bytes=index_stride_bytes
        )
        if rewritten is not None:
            yield rewritten
        elif choice.leaves_out:
            # It would grow, and stays: what deletes messages in it must stay with it.
            may_drop = False


class _Choice:
    """What survives of one segment."""

    def __init__(self, survivors: Survivors, path: str, *, drops_tombstones: bool) -> None:
        self._survivors = survivors
        self._path = path
        self._drops_tombstones = drops_tombstones
        self.leaves_out = False

    def __call__(self, run: Run) -> list[Kept]:
        kept = list(
            self._survivors.choose(run, path=self._path, drops_tombstones=self._drops_tombstones)
        )
        self.leaves_out = self.leaves_out or kept != [range(run.record_count)]
        return kept


def _note(disk: Disk, info: SegmentInfo, survivors: Survivors) -> int:
    """Tell of every record; the largest timestamp."""
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
