"""The reports of `lakebed manifest inspect` and `history`: chunks, snapshots and records."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from lakebed.aof.manifest.format import MANIFEST_ITSELF
from lakebed.api.read_surface import ReadableManifestLog
from lakebed.cli.manifest_logs import DAMAGE_MARK
from lakebed.cli.manifest_states import STATES, condition_words, tiers_of
from lakebed.cli.manifest_text import (
    moment_columns,
    payload_members,
    record_words,
    segment_text,
    time_text,
)
from lakebed.cli.report import NONE, Column, cell_text, object_of
from lakebed.cli.values import duration_text, tiers_text
from lakebed.store.manifest_moments import RecordedHistory, Step
from lakebed.store.manifest_survey import ChunkFacts, Damaged, Entry, SnapshotFacts


@dataclass
class Inspected:
    """What `lakebed manifest inspect` shows of a manifest log."""

    manifest: ReadableManifestLog
    chunks: list[ChunkFacts] = field(default_factory=list)
    snapshots: list[SnapshotFacts] = field(default_factory=list)
    ignored: list[str] = field(default_factory=list)
    shown: list[Entry] = field(default_factory=list)
    following: Entry | None = None  # the first entry after those that are shown

    @property
    def is_damaged(self) -> bool:
        facts: list[ChunkFacts | SnapshotFacts] = [*self.chunks, *self.snapshots]
        return self.manifest.damage is not None or any(each.problem for each in facts)

    @property
    def unknown_count(self) -> int:
        return sum(chunk.unknown_count for chunk in self.chunks)

    @property
    def flagged_count(self) -> int:
        return sum(chunk.flagged_count for chunk in self.chunks)


class Moment(NamedTuple):
    """One step of a segment's history."""

    step: Step
    time_ms: int | None
    after_ms: int | None  # since the last step that has a time
    what: str


def timeline(steps: Sequence[Step]) -> Iterator[Moment]:
    last_ms: int | None = None
    for step in steps:
        if isinstance(step, Damaged):
            yield Moment(step, None, None, f"{DAMAGE_MARK} {step.state}: {step.problem}")
            continue
        if isinstance(step, RecordedHistory):
            time_ms, what = step.state.changed_at_ms, _history_words(step)
        else:
            time_ms, what = step.record.timestamp_ms, record_words(step.record)
        yield Moment(step, time_ms, None if last_ms is None else time_ms - last_ms, what)
        last_ms = time_ms


def step_object(moment: Moment) -> dict[str, object]:
    step = moment.step
    if isinstance(step, RecordedHistory):
        place: dict[str, object] = {"position": str(step.position), "snapshot": step.snapshot_id}
        return {**place, "state": object_of(STATES, step.state), **object_of(_AFTER, moment)}
    return {**entry_object(step), **object_of(_AFTER, moment)}


def entry_object(entry: Entry) -> dict[str, object]:
    return object_of(DAMAGES if isinstance(entry, Damaged) else RECORDS, entry)


def snapshot_object(facts: SnapshotFacts) -> dict[str, object]:
    snapshot = facts.snapshot
    return {
        **object_of(_SNAPSHOT_FILE, facts),
        **({} if snapshot is None else object_of(_SNAPSHOT, snapshot)),
    }


def _history_words(step: RecordedHistory) -> str:
    words = [*condition_words(step.state), f"tiers {tiers_text(tiers_of(step.state))}"]
    return f"as snapshot {step.snapshot_id} has it: {', '.join(words)}"


def _mark(facts: ChunkFacts | SnapshotFacts) -> str:
    return f"{DAMAGE_MARK} {facts.problem}" if facts.problem else ""


def _record_cell(cell: str) -> Column:
    """Returns a column of the table of records; its cell is `-` in a row that describes damage."""
    texts = {
        "time": lambda record: time_text(record.timestamp_ms),
        "segment": lambda record: segment_text(record.segment_id),
        "offset": lambda record: str(record.logical_offset),
    }

    def text(entry: Entry) -> str:
        return NONE if isinstance(entry, Damaged) else texts[cell](entry.record)

    return Column("", text, cell)


def _type_cell(entry: Entry) -> str:
    return DAMAGE_MARK if isinstance(entry, Damaged) else entry.record.type_name


def _what_cell(entry: Entry) -> str:
    if isinstance(entry, Damaged):
        return f"{DAMAGE_MARK} {entry.state}: {entry.problem}"
    return record_words(entry.record)


def _snapshot_cell(facts: SnapshotFacts, column: Column) -> str:
    return NONE if facts.snapshot is None else cell_text(column.member(facts.snapshot))


CHUNKS = (
    Column("chunk", "chunk_index", "chunk"),
    Column("state", heading="state"),
    Column("sealed", "is_sealed"),
    Column("uploaded", "is_uploaded", "uploaded"),
    Column("flags"),
    Column("records", "record_count", "records"),
    Column("committed_bytes", heading="committed"),
    Column("file_bytes"),
    Column("base_record", heading="base record"),
    Column("crc_ok", "is_crc_right", "crc", lambda is_right: "ok" if is_right else "wrong"),
    Column("problem", lambda chunk: chunk.problem or None),
    Column("path"),
    Column("", _mark, ""),
)
_SNAPSHOT_FILE = (
    Column("snapshot", "snapshot_id"),
    Column("state"),
    Column("file_bytes"),
    Column("problem", lambda facts: facts.problem or None),
    Column("path"),
)
_POSITION = Column("position", json=str)
_RECORD_COUNT = Column("records", lambda snapshot: snapshot.index.record_count)
_SEGMENT_COUNT = Column("segments", lambda snapshot: len(snapshot.index))
_DELETE_COUNT = Column("pending_deletes", lambda snapshot: len(snapshot.index.pending_deletes))
_SNAPSHOT = (
    _POSITION,
    _RECORD_COUNT,
    _SEGMENT_COUNT,
    _DELETE_COUNT,
    *moment_columns("last_record_at", lambda snapshot: snapshot.index.last_timestamp_ms),
)
SNAPSHOTS = (
    Column("", "snapshot_id", "snapshot"),
    Column("", "state", "state"),
    Column("", lambda facts: _snapshot_cell(facts, _POSITION), "position"),
    Column("", lambda facts: _snapshot_cell(facts, _RECORD_COUNT), "records"),
    Column("", lambda facts: _snapshot_cell(facts, _SEGMENT_COUNT), "segments"),
    Column("", lambda facts: _snapshot_cell(facts, _DELETE_COUNT), "deletes"),
    Column("", "file_bytes", "bytes"),
    Column(
        "",
        lambda facts: facts.snapshot and time_text(facts.snapshot.index.last_timestamp_ms),
        "last record",
    ),
    Column("", _mark, ""),
)
"""The columns of the table of snapshots. `snapshot_object` makes the JSON objects."""

_PLACE = (
    _POSITION,
    Column("chunk", lambda entry: entry.position.chunk_index),
    Column("offset", lambda entry: entry.position.offset),
)
RECORDS = (
    *_PLACE,
    *moment_columns("time", lambda entry: entry.record.timestamp_ms),
    Column("type", lambda entry: entry.record.type_name),
    Column("type_number", lambda entry: entry.record.type_number),
    Column("flags", lambda entry: entry.record.flags),
    Column(
        "segment_id",
        lambda entry: (
            None if entry.record.segment_id == MANIFEST_ITSELF else entry.record.segment_id
        ),
    ),
    Column("logical_offset", lambda entry: entry.record.logical_offset),
    Column("payload", lambda entry: payload_members(entry.record.payload)),
    Column("what", lambda entry: record_words(entry.record)),
)
DAMAGES = (*_PLACE, Column("state"), Column("problem"), Column("path"))
ENTRIES = (
    Column("", "position", "position"),
    _record_cell("time"),
    Column("", _type_cell, "type"),
    _record_cell("segment"),
    _record_cell("offset"),
    Column("", _what_cell, "what"),
)
"""The columns of the table of records and damage. `entry_object` makes the JSON objects."""

_AFTER = (Column("after_ms"), Column("what"))
HISTORY = (
    Column("", "time_ms", "time", time_text),
    Column("", "after_ms", "after", duration_text),
    Column("", "what", "what"),
    Column("", lambda moment: moment.step.position, "position"),
)
"""The columns of the table of a segment's history. `step_object` makes the JSON objects."""
