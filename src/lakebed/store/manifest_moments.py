"""The state of a manifest log as of a moment: a place in it, or a time. And what happened before.

A moment must be one that the history reaches: the first chunks may be gone, and then it begins with
the oldest snapshot. Nothing is made up for what was before that.
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
    """Where the history begins; the time is 0 if that is not known."""

    position: Position
    timestamp_ms: int


class RecordedHistory(NamedTuple):
    """What a snapshot says of a segment, where the records that led to it are gone."""

    position: Position
    snapshot_id: int
    state: SegmentState


Step = Entry | RecordedHistory


def parse_position(text: str) -> Position:
    """From `chunk:offset`, as it is printed."""
    parts = text.split(":")
    if len(parts) != 2 or not all(
        part.isascii() and part.isdigit() and len(part) <= _DIGITS_MAX for part in parts
    ):
        raise InputError(f"not a position: {shown(text)}; it looks like 3:64, chunk and byte")
    return Position(int(parts[0]), int(parts[1]))


def looks_like_position(text: str) -> bool:
    """Whether it can only be meant as one: no time has digits and one colon alone."""
    return text.count(":") == 1 and text.replace(":", "").isdigit()


def state_as_of(reader: ManifestReader, moment: Moment | None) -> ReplayResult:
    """The state then, or now; `NotFound` if the log does not have that moment."""
    if moment is not None:
        beginning = history_beginning(reader)
        if moment.position is not None:
            _require_place(reader, moment.position, beginning)
        if moment.timestamp_ms is not None and moment.timestamp_ms < beginning.timestamp_ms:
            raise BeforeHistory("that time", beginning)
    return replay(reader, moment)


def history_beginning(reader: ManifestReader) -> Beginning:
    """The first moment of which the state is known."""
    indexes = reader.chunk_indexes()
    if indexes[:1] == [0]:
        judged = reader.chunk(0)
        records = judged.records or salvage(judged.data, 0)
        time_ms = records[0].record.timestamp_ms if records else 0
        return Beginning(Position(0, RECORDS_START), time_ms)
    oldest = _oldest_snapshot(reader)
    if oldest is None:
        raise NotFound("the first chunks are gone, and no snapshot is good: there is no history")
    return Beginning(oldest.position, oldest.index.last_timestamp_ms)


def segment_history(reader: ManifestReader, segment_id: int) -> list[Step]:
    """All that is known to have happened to one segment, and every damage that may hide more.

    `NotFound` if nothing is known of it.
    """
    steps: list[Step] = []
    known: set[int] = set()
    for entry in entries(reader):
        if isinstance(entry, Damaged):
            steps.append(entry)
        else:
            known.add(entry.record.segment_id)
            if entry.record.segment_id == segment_id:
                steps.append(entry)
    steps += _recorded_steps(reader, segment_id, known)
    if all(isinstance(step, Damaged) for step in steps):
        known.discard(MANIFEST_ITSELF)
        span = f"; of {min(known)} to {max(known)} there is" if known else ""
        raise NotFound(f"nothing is recorded of segment {segment_id}{span}")
    return sorted(steps, key=lambda step: step.position)


class BeforeHistory(NotFound):
    """A moment before the first that is known."""

    def __init__(self, what: str, beginning: Beginning) -> None:
        super().__init__(f"{what} is before the history, which begins at {beginning.position}")
        self.beginning = beginning


def _recorded_steps(reader: ManifestReader, segment_id: int, known: set[int]) -> list[Step]:
    """From the oldest snapshot, if records before it are gone."""
    if reader.chunk_indexes()[:1] == [0]:
        return []
    oldest = _oldest_snapshot(reader)
    if oldest is None:
        return []
    known |= {state.segment_id for state in oldest.index.segments()}
    state = oldest.index.get(segment_id)
    return [] if state is None else [RecordedHistory(oldest.position, oldest.snapshot_id, state)]


def _oldest_snapshot(reader: ManifestReader) -> Snapshot | None:
    for snapshot_id in reader.snapshot_ids():
        with contextlib.suppress(DataError, NotFound):
            return reader.snapshot(snapshot_id)
    return None


def _require_place(reader: ManifestReader, position: Position, beginning: Beginning) -> None:
    """`NotFound` unless a record begins there, or could."""
    if position < beginning.position:
        raise BeforeHistory(str(position), beginning)
    if position == beginning.position:
        return
    indexes = reader.chunk_indexes()
    last = indexes[-1] if indexes else -1
    if position.chunk_index > last:
        if position != (last + 1, RECORDS_START):
            end = Position(last, reader.chunk(last).end) if indexes else beginning.position
            raise NotFound(f"{position} is behind the end of the manifest log, {end}")
        return
    if position.chunk_index not in indexes:
        raise NotFound(f"{reader.paths.chunk(position.chunk_index)}: missing")
    judged = reader.chunk(position.chunk_index)
    found: list[PlacedRecord] = [*judged.records, *salvage(judged.data, judged.chunk_index)]
    offsets = {RECORDS_START, judged.end, *(placed.position.offset for placed in found)}
    if position.offset not in offsets:
        nearest = max((one for one in offsets if one < position.offset), default=RECORDS_START)
        raise NotFound(
            f"no record begins at {position}; the nearest place before it is "
            f"{position.chunk_index}:{nearest}"
        )
