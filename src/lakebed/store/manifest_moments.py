"""Returns the state of a manifest log as of a position or a time, and the history of a segment.

If the first chunks were removed, the history begins with the oldest readable snapshot. A moment
before the beginning of the history is refused.
"""

from __future__ import annotations

import contextlib
from typing import NamedTuple

from lakebed.aof.manifest.chunk import PlacedRecord, salvage
from lakebed.aof.manifest.format import MANIFEST_ITSELF, RECORDS_START
from lakebed.aof.manifest.reader import ManifestReader
from lakebed.aof.manifest.records import Position
from lakebed.aof.manifest.replay import Moment, ReplayResult, replay
from lakebed.aof.manifest.snapshot import Snapshot
from lakebed.aof.manifest.state import SegmentState
from lakebed.base.errors import DataError, InputError, NotFound
from lakebed.base.units import shown
from lakebed.store.manifest_survey import Damaged, Entry, entries

_DIGITS_MAX = 20


class Beginning(NamedTuple):
    """Where the history of a manifest log begins; the time is 0 if it is not known."""

    position: Position
    timestamp_ms: int


class RecordedHistory(NamedTuple):
    """The state of a segment in the oldest snapshot, in place of removed records before that."""

    position: Position
    snapshot_id: int
    state: SegmentState


Step = Entry | RecordedHistory


def parse_position(text: str) -> Position:
    """Parses a position in a manifest log, written as `chunk:byte`."""
    parts = text.split(":")
    if len(parts) != 2 or not all(
        part.isascii() and part.isdigit() and len(part) <= _DIGITS_MAX for part in parts
    ):
        raise InputError(f"not a position: {shown(text)}; expected chunk:byte, such as 3:64")
    return Position(int(parts[0]), int(parts[1]))


def looks_like_position(text: str) -> bool:
    """Whether `text` is digits with a single colon, as in a position and never in a time."""
    return text.count(":") == 1 and text.replace(":", "").isdigit()


def state_as_of(reader: ManifestReader, moment: Moment | None) -> ReplayResult:
    """Returns the state at a moment; None means now.

    Raises `NotFound` if the moment is before the beginning of the history, or is a position at
    which no record begins or ends.
    """
    if moment is not None:
        beginning = history_beginning(reader)
        if moment.position is not None:
            _require_place(reader, moment.position, beginning)
        if moment.timestamp_ms is not None and moment.timestamp_ms < beginning.timestamp_ms:
            raise BeforeHistory("that time", beginning)
    return replay(reader, moment)


def history_beginning(reader: ManifestReader) -> Beginning:
    """Returns the first moment at which the state is known.

    Raises `NotFound` if no snapshot is readable and the first chunks are missing, or there are no
    chunks.
    """
    indexes = reader.chunk_indexes()
    if indexes[:1] == [0]:
        judged = reader.chunk(0)
        records = judged.records or salvage(judged.data, 0)
        time_ms = records[0].record.timestamp_ms if records else 0
        return Beginning(Position(0, RECORDS_START), time_ms)
    oldest = _oldest_snapshot(reader)
    if oldest is None:
        raise NotFound(
            "there is no history: the first chunks are missing, and no snapshot is readable"
        )
    return Beginning(oldest.position, oldest.index.last_timestamp_ms)


def segment_history(reader: ManifestReader, segment_id: int) -> list[Step]:
    """Returns the records about one segment in order, and every damaged place that may hide more.

    If the first chunks were removed, the segment's state in the oldest readable snapshot is
    included, at the snapshot's position. Raises `NotFound` if nothing is recorded about the
    segment.
    """
    steps: list[Step] = []
    recorded_ids: set[int] = set()
    for entry in entries(reader):
        if isinstance(entry, Damaged):
            steps.append(entry)
        else:
            recorded_ids.add(entry.record.segment_id)
            if entry.record.segment_id == segment_id:
                steps.append(entry)
    steps += _recorded_steps(reader, segment_id, recorded_ids)
    if all(isinstance(step, Damaged) for step in steps):
        recorded_ids.discard(MANIFEST_ITSELF)
        span = (
            f"; there are records about segments {min(recorded_ids)} to {max(recorded_ids)}"
            if recorded_ids
            else ""
        )
        raise NotFound(f"nothing is recorded about segment {segment_id}{span}")
    return sorted(steps, key=lambda step: step.position)


class BeforeHistory(NotFound):
    """The requested moment is before the beginning of the history."""

    def __init__(self, what: str, beginning: Beginning) -> None:
        super().__init__(f"{what} is before the history, which begins at {beginning.position}")
        self.beginning = beginning


def _recorded_steps(reader: ManifestReader, segment_id: int, recorded_ids: set[int]) -> list[Step]:
    """Returns a segment's state in the oldest readable snapshot, if the first chunks were removed.

    The list is empty otherwise, or if the snapshot does not have the segment. Adds the ids of all
    segments of that snapshot to `recorded_ids`.
    """
    if reader.chunk_indexes()[:1] == [0]:
        return []
    oldest = _oldest_snapshot(reader)
    if oldest is None:
        return []
    recorded_ids |= {state.segment_id for state in oldest.index.segments()}
    state = oldest.index.get(segment_id)
    return [] if state is None else [RecordedHistory(oldest.position, oldest.snapshot_id, state)]


def _oldest_snapshot(reader: ManifestReader) -> Snapshot | None:
    for snapshot_id in reader.snapshot_ids():
        with contextlib.suppress(DataError, NotFound):
            return reader.snapshot(snapshot_id)
    return None


def _require_place(reader: ManifestReader, position: Position, beginning: Beginning) -> None:
    """Raises `NotFound` unless a record begins at `position`, or the next one will begin there."""
    if position < beginning.position:
        raise BeforeHistory(str(position), beginning)
    if position == beginning.position:
        return
    indexes = reader.chunk_indexes()
    last = indexes[-1] if indexes else -1
    if position.chunk_index > last:
        if position != (last + 1, RECORDS_START):
            end = Position(last, reader.chunk(last).end) if indexes else beginning.position
            raise NotFound(f"{position} is after the end of the manifest log, {end}")
        return
    if position.chunk_index not in indexes:
        raise NotFound(f"{reader.paths.chunk(position.chunk_index)}: the chunk is missing")
    judged = reader.chunk(position.chunk_index)
    placed_records: list[PlacedRecord] = [
        *judged.records,
        *salvage(judged.data, judged.chunk_index),
    ]
    offsets = {RECORDS_START, judged.end, *(placed.position.offset for placed in placed_records)}
    if position.offset not in offsets:
        nearest = max(
            (offset for offset in offsets if offset < position.offset), default=RECORDS_START
        )
        raise NotFound(
            f"no record begins at {position}; the nearest position before it is "
            f"{position.chunk_index}:{nearest}"
        )
