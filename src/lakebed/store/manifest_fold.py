"""Folds the records of a manifest log in their order, and holds its snapshots against the fold.

From the first record on if that is there; else, and behind every loss, from the next snapshot on:
what that says is believed, and those after it are compared. Without I/O.
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
    """A snapshot that does not say what the records before it do."""

    snapshot: Snapshot
    problem: str


class ManifestFold:
    """Call `begin_chunk`, `add` for its records and `end_chunk`, or `lose_chunk`; then `finish`."""

    def __init__(self, snapshots: Iterable[Snapshot], *, is_from_start: bool) -> None:
        self.index = ManifestIndex() if is_from_start else None  # None: not known here
        self.ordinal = 0 if is_from_start else None  # records before this place
        self.news_count = 0  # records since the newest snapshot that change something
        self.compared_count = 0
        self.disagreements: list[Disagreement] = []
        self._end = Position(0, 0)  # how far it has come
        self._is_cut = False  # the chunk before that place has lost records
        self._snapshots = deque(sorted(snapshots, key=lambda one: one.position))

    def begin_chunk(self, chunk_index: int, *, base_record: int | None) -> str:
        """What is wrong with the chunk's place in the row, if anything."""
        expected = self.ordinal
        if base_record is not None:
            self.ordinal = base_record
        self._reach(Position(chunk_index, RECORDS_START))
        self._is_cut = False
        if expected is None or base_record in (None, expected):
            return ""
        return f"begins with record {base_record}, but {expected} was expected"

    def add(self, placed: PlacedRecord) -> None:
        self._reach(placed.position)
        if self.index is not None:
            self.index.apply(placed.record)
        if self.ordinal is not None:
            self.ordinal += 1
        self.news_count += not placed.record.is_about_manifest

    def end_chunk(self, end: Position, *, is_whole: bool) -> None:
        """Its good records end there."""
        self._reach(end)
        self._is_cut = not is_whole

    def lose_chunk(self, chunk_index: int) -> None:
        """Its records are not known; nor is the state, up to the next snapshot."""
        self._reach(Position(chunk_index, RECORDS_START))
        self.index = self.ordinal = None

    def finish(self) -> None:
        """There are no more chunks."""
        self._reach(Position(self._end.chunk_index + 1, RECORDS_START))
        for snapshot in self._snapshots:
            self._follow(snapshot)

    def _reach(self, place: Position) -> None:
        """Everything before that place was added, or is lost."""
        while self._snapshots and self._snapshots[0].position <= place:
            snapshot = self._snapshots.popleft()
            if snapshot.position == place:
                self._compare(snapshot)
            elif self.index is not None and snapshot.position > self._end:
                self._follow(snapshot)
        self._end = place

    def _follow(self, snapshot: Snapshot) -> None:
        """It is ahead of the records, and so all that is known of the lost ones.

        Behind a damaged chunk that is no wonder, and the damage was told.
        """
        if not self._is_cut:
            self._disagree(snapshot, f"is as of {snapshot.position}, which the log does not have")
        self._take(snapshot)

    def _compare(self, snapshot: Snapshot) -> None:
        if self.index is not None:
            self.compared_count += 1
            for difference in _differences(snapshot.index, self.index):
                self._disagree(snapshot, difference)
        elif self.ordinal not in (None, snapshot.index.record_count):
            found = snapshot.index.record_count
            self._disagree(snapshot, f"is of {found} records, but {self.ordinal} are before it")
        self._take(snapshot)

    def _take(self, snapshot: Snapshot) -> None:
        self.index = snapshot.index.copy()
        self.news_count = 0

    def _disagree(self, snapshot: Snapshot, problem: str) -> None:
        self.disagreements.append(Disagreement(snapshot, problem))


def _differences(found: ManifestIndex, expected: ManifestIndex) -> Iterator[str]:
    found_states = {state.segment_id: state for state in found.segments()}
    states = {state.segment_id: state for state in expected.segments()}
    differing = [
        segment_id
        for segment_id in sorted(found_states.keys() | states.keys())
        if found_states.get(segment_id) != states.get(segment_id)
    ]
    if differing:
        shown = ", ".join(map(str, differing[:_SHOWN_MAX]))
        more = f" and {len(differing) - _SHOWN_MAX} more" if len(differing) > _SHOWN_MAX else ""
        yield f"differs from the records before it about segments {shown}{more}"
    if found.pending_deletes != expected.pending_deletes:
        yield "differs from the records before it about pending deletes"
    for name in ("coordinator_watermark", "record_count", "last_timestamp_ms", "last_marker"):
        one, other = getattr(found, name), getattr(expected, name)
        if one != other:
            yield f"says {name} {one}, the records before it say {other}"
