"""Folds the records of a manifest log into segment states, and compares its snapshots with them.

To fold means to apply the records one after another. The fold begins with the first record, if that
still exists. Otherwise, and after every gap, it begins with the next snapshot, which is trusted;
later snapshots are compared with the fold. No I/O.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from lakebed.aof.manifest.chunk import PlacedRecord
from lakebed.aof.manifest.format import RECORDS_START
from lakebed.aof.manifest.index import ManifestIndex
from lakebed.aof.manifest.records import Position
from lakebed.aof.manifest.snapshot import Snapshot

_SHOWN_MAX = 8


class Disagreement(NamedTuple):
    """A snapshot that differs from the records before it."""

    snapshot: Snapshot
    problem: str


class ManifestFold:
    """Folds a manifest log chunk by chunk.

    For a readable chunk call `begin_chunk`, `add` for each record, and `end_chunk`; for an
    unreadable chunk call `lose_chunk`. After the last chunk call `finish`.
    """

    def __init__(self, snapshots: Iterable[Snapshot], *, is_from_start: bool) -> None:
        self.index = ManifestIndex() if is_from_start else None  # None while the state is unknown
        self.ordinal = 0 if is_from_start else None  # records before `_end`
        self.news_count = 0  # records about segments since the last snapshot
        self.compared_count = 0
        self.disagreements: list[Disagreement] = []
        self._end = Position(0, 0)  # how far the fold has come
        self._is_cut = False  # whether the chunk before `_end` has lost records
        self._snapshots = deque(sorted(snapshots, key=lambda snapshot: snapshot.position))

    def begin_chunk(self, chunk_index: int, *, base_record: int | None) -> str:
        """Begins a chunk; returns a problem if its records do not continue the chunk before it.

        Returns an empty string if there is no problem.
        """
        expected = self.ordinal
        if base_record is not None:
            self.ordinal = base_record
        self._reach(Position(chunk_index, RECORDS_START))
        self._is_cut = False
        if expected is None or base_record in (None, expected):
            return ""
        return f"the chunk begins with record number {base_record}, expected {expected}"

    def add(self, placed: PlacedRecord) -> None:
        self._reach(placed.position)
        if self.index is not None:
            self.index.apply(placed.record)
        if self.ordinal is not None:
            self.ordinal += 1
        self.news_count += not placed.record.is_about_manifest

    def end_chunk(self, end: Position, *, is_whole: bool) -> None:
        """Ends a chunk whose last good record ends at `end`.

        `is_whole` is False if the chunk has lost records.
        """
        self._reach(end)
        self._is_cut = not is_whole

    def lose_chunk(self, chunk_index: int) -> None:
        """Skips an unreadable chunk. From here to the next snapshot the state is unknown."""
        self._reach(Position(chunk_index, RECORDS_START))
        self.index = self.ordinal = None

    def finish(self) -> None:
        """Ends the fold after the last chunk, and judges the remaining snapshots."""
        self._reach(Position(self._end.chunk_index + 1, RECORDS_START))
        for snapshot in self._snapshots:
            self._follow(snapshot)

    def _reach(self, place: Position) -> None:
        """Moves the end of the fold to `place`, and judges the snapshots up to there."""
        while self._snapshots and self._snapshots[0].position <= place:
            snapshot = self._snapshots.popleft()
            if snapshot.position == place:
                self._compare(snapshot)
            elif self.index is not None and snapshot.position > self._end:
                self._follow(snapshot)
        self._end = place

    def _follow(self, snapshot: Snapshot) -> None:
        """Continues the fold from a snapshot whose position no good record reaches.

        That is a disagreement, unless the chunk is damaged: then its damage is already reported.
        """
        if not self._is_cut:
            self._disagree(
                snapshot, f"the snapshot is as of {snapshot.position}, which is in no chunk"
            )
        self._take(snapshot)

    def _compare(self, snapshot: Snapshot) -> None:
        if self.index is not None:
            self.compared_count += 1
            for difference in _differences(snapshot.index, self.index):
                self._disagree(snapshot, difference)
        elif self.ordinal not in (None, snapshot.index.record_count):
            count = snapshot.index.record_count
            self._disagree(
                snapshot, f"the snapshot covers {count} records, but {self.ordinal} precede it"
            )
        self._take(snapshot)

    def _take(self, snapshot: Snapshot) -> None:
        self.index = snapshot.index.copy()
        self.news_count = 0

    def _disagree(self, snapshot: Snapshot, problem: str) -> None:
        self.disagreements.append(Disagreement(snapshot, problem))


def _differences(snapshot: ManifestIndex, folded: ManifestIndex) -> Iterator[str]:
    snapshot_states = {state.segment_id: state for state in snapshot.segments()}
    folded_states = {state.segment_id: state for state in folded.segments()}
    differing = [
        segment_id
        for segment_id in sorted(snapshot_states.keys() | folded_states.keys())
        if snapshot_states.get(segment_id) != folded_states.get(segment_id)
    ]
    if differing:
        shown = ", ".join(map(str, differing[:_SHOWN_MAX]))
        more = f" and {len(differing) - _SHOWN_MAX} more" if len(differing) > _SHOWN_MAX else ""
        yield f"the snapshot differs from the records before it in segments {shown}{more}"
    if snapshot.pending_deletes != folded.pending_deletes:
        yield "the snapshot differs from the records before it in its pending deletes"
    for name in ("coordinator_watermark", "record_count", "last_timestamp_ms", "last_marker"):
        in_snapshot, in_records = getattr(snapshot, name), getattr(folded, name)
        if in_snapshot != in_records:
            yield f"the snapshot has {name} {in_snapshot}, the records before it {in_records}"
