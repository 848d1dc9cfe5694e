"""The state of every segment of a log, computed from the records of its manifest log without I/O.

Each segment has an entry, which `transitions` updates record by record. `apply` accepts any records
in any order. The index also keeps facts that outlive a segment's entry:

- Pending deletes of objects. While the segment's entry has the object, its queued delete is part of
  the entry. When the entry is removed or gets another object, the key is added to
  `pending_deletes`; if an object is uploaded again under that key, the delete moves back to the
  entry. So a delete is never lost and never listed twice.
- The highest coordinator watermark, including those of removed segments.

A record with an earlier time than the record before it counts as written at the time of the record
before it. Such contradictions are counted as anomalies. The counts cover only the records that were
applied to this object: snapshots do not store them, and comparisons ignore them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from enum import Enum
from typing import Any

from lakebed.aof.manifest.format import (
    MANIFEST_ITSELF,
    SealSegment,
    SegmentOpened,
    SnapshotMarker,
)
from lakebed.aof.manifest.minimal_records import minimal_records
from lakebed.aof.manifest.records import (
    ManifestRecord,
    Payload,
    Tier2Deleted,
    Tier2DeleteQueued,
    Unknown,
    UploadDone,
)
from lakebed.aof.manifest.state import (
    Draft,
    Reconciliation,
    ReconciliationKind,
    Residency,
    SegmentState,
    frozen,
    open_questions,
)
from lakebed.aof.manifest.transitions import CREATING, DELETING, TIER2, TRANSITIONS

UNKNOWN_TYPES_MAX = 64
_NUMBERS = ("coordinator_watermark", "custom_count", "flagged_count", "last_marker",
            "last_timestamp_ms", "record_count", "unknown_count")  # fmt: skip


class Anomaly(Enum):
    """A contradiction between records, which is counted but raises no error."""

    TIME_FELL = "a record is older than the one before it"
    NOT_OPENED = "a record created an entry for a segment that was not opened"
    OBJECT_REPLACED = "an object was replaced, and its delete was not queued"


class ManifestIndex:
    """The state of all segments of a log, according to its manifest records. Not thread-safe."""

    __slots__ = (
        "_deletes",
        "_drafts",
        "_states",
        "anomalies",
        "coordinator_watermark",
        "custom_count",
        "flagged_count",
        "last_marker",
        "last_timestamp_ms",
        "record_count",
        "unknown_count",
        "unknown_types",
    )

    def __init__(self) -> None:
        self._states: dict[int, SegmentState] = {}
        self._drafts: dict[
            int, Draft
        ] = {}  # replace the states of segments that changed since they were read
        self._deletes: dict[str, None] = {}  # in queue order
        self.coordinator_watermark = 0
        self.last_timestamp_ms = 0
        self.record_count = 0  # counted from the log's first record
        self.last_marker = SnapshotMarker(0, 0, 0)  # zeros if there was none
        self.flagged_count = 0
        self.custom_count = 0
        self.unknown_count = 0
        self.unknown_types: dict[int, int] = {}  # counts of the first few types
        self.anomalies = dict.fromkeys(Anomaly, 0)

    @classmethod
    def restored(
        cls,
        states: Iterable[SegmentState],
        pending_deletes: Iterable[str],
        *,
        coordinator_watermark: int,
        last_timestamp_ms: int,
        record_count: int,
        last_marker: SnapshotMarker,
    ) -> ManifestIndex:
        """Creates the index that a snapshot contains, from its decoded fields."""
        index = cls()
        index._states = {state.segment_id: state for state in states}
        index._deletes = dict.fromkeys(pending_deletes)
        index.coordinator_watermark = coordinator_watermark
        index.last_timestamp_ms = last_timestamp_ms
        index.record_count = record_count
        index.last_marker = last_marker
        return index

    def apply(self, record: ManifestRecord) -> None:
        """Updates the index with the next record."""
        payload, segment_id, _, timestamp_ms, flags = record
        self.record_count += 1
        if flags:
            self.flagged_count += 1
        if timestamp_ms < self.last_timestamp_ms:
            self.anomalies[Anomaly.TIME_FELL] += 1
            timestamp_ms = self.last_timestamp_ms
        else:
            self.last_timestamp_ms = timestamp_ms
        rule = _RULES.get(type(payload))
        if rule is None:
            self._count(payload)
            return
        transition, note, is_creating = rule
        draft = self._drafts.get(segment_id) or self._begin(segment_id, payload, is_creating)
        if note is not None:
            note(self, draft, payload)
        if draft is not None and transition(draft, payload, timestamp_ms):
            self._remove(draft)

    def copy(self) -> ManifestIndex:
        """Returns a copy that does not change when this index changes."""
        other = ManifestIndex()
        other._states = self._frozen().copy()
        other._deletes = self._deletes.copy()
        other.unknown_types = self.unknown_types.copy()
        other.anomalies = self.anomalies.copy()
        for name in _NUMBERS:
            setattr(other, name, getattr(self, name))
        return other

    def __eq__(self, other: object) -> bool:
        """Compares the segments' states, the pending deletes in order, and the watermark."""
        if not isinstance(other, ManifestIndex):
            return NotImplemented
        return (
            self._frozen() == other._frozen()
            and list(self._deletes) == list(other._deletes)
            and self.coordinator_watermark == other.coordinator_watermark
        )

    __hash__ = None  # type: ignore[assignment]  # mutable

    def __len__(self) -> int:
        """Returns the number of segments with an entry."""
        return len(self._frozen())

    def get(self, segment_id: int) -> SegmentState | None:
        draft = self._drafts.pop(segment_id, None)
        if draft is not None:
            self._states[segment_id] = frozen(draft)
        return self._states.get(segment_id)

    def segments(self) -> Iterator[SegmentState]:
        """Iterates over the current states, ordered by segment id."""
        states = self._frozen()
        ids = sorted(states)  # a single pass if they are in order already
        return iter([states[segment_id] for segment_id in ids])

    def iter_residency(self, residency: Residency) -> Iterator[SegmentState]:
        """Yields the segments that are in all tiers that `residency` names, ordered by id."""
        tiers = residency.value
        return (state for state in self.segments() if state.residency & tiers == tiers)

    def pending(self) -> Iterator[SegmentState]:
        """Yields the segments with running or queued work, ordered by id."""
        return (state for state in self.segments() if state.pending)

    @property
    def pending_deletes(self) -> tuple[str, ...]:
        """The keys of objects to delete that belong to no segment's entry, in queue order."""
        return tuple(self._deletes)

    def reconciliation(self) -> Iterator[Reconciliation]:
        """Yields the segments and objects whose real state the records leave uncertain.

        The caller must check their files and objects.
        """
        for state in self.segments():
            yield from open_questions(state)
        for key in self.pending_deletes:
            yield Reconciliation(MANIFEST_ITSELF, ReconciliationKind.ORPHAN_DELETE, key)

    def minimal_records(self) -> list[ManifestRecord]:
        """Returns the fewest records, in time order, from which an equal index can be computed."""
        return minimal_records(
            self._frozen().values(),
            self._deletes,
            coordinator_watermark=self.coordinator_watermark,
            last_timestamp_ms=self.last_timestamp_ms,
        )

    def _count(self, payload: Payload) -> None:
        """Counts a custom or unknown record, or stores a snapshot marker as `last_marker`."""
        if isinstance(payload, SnapshotMarker):
            self.last_marker = payload
        elif isinstance(payload, Unknown):
            self.unknown_count += 1
            counts = self.unknown_types
            if payload.record_type in counts or len(counts) < UNKNOWN_TYPES_MAX:
                counts[payload.record_type] = counts.get(payload.record_type, 0) + 1
        else:
            self.custom_count += 1

    def _begin(self, segment_id: int, payload: Payload, is_creating: bool) -> Draft | None:
        """Returns a new draft of the segment's entry, for the transition to change.

        If there is no entry, starts an empty entry if `is_creating`, and otherwise returns None.
        Also returns None if the record is about the manifest log itself.
        """
        if segment_id == MANIFEST_ITSELF:
            return None
        state = self._states.get(segment_id)
        if state is not None:
            draft = Draft(*state)
        elif is_creating:
            draft = Draft(segment_id)
            if type(payload) is not SegmentOpened:
                self.anomalies[Anomaly.NOT_OPENED] += 1
        else:
            return None
        self._drafts[segment_id] = draft
        return draft

    def _remove(self, draft: Draft) -> None:
        del self._drafts[draft.segment_id]
        self._states.pop(draft.segment_id, None)
        if draft.pending & DELETING:
            self._deletes[draft.key] = None

    def _frozen(self) -> dict[int, SegmentState]:
        """Converts all drafts to states, and returns the states by segment id."""
        if self._drafts:
            self._states.update((id_, frozen(draft)) for id_, draft in self._drafts.items())
            self._drafts.clear()
        return self._states

    # Updates of the facts that outlive an entry. Each runs before the record changes the entry;
    # the draft is None if the segment has no entry.

    def _note_seal(self, _: Draft | None, payload: SealSegment) -> None:
        if payload.coordinator_watermark > self.coordinator_watermark:
            self.coordinator_watermark = payload.coordinator_watermark

    def _note_upload(self, draft: Draft | None, payload: UploadDone) -> None:
        if draft is None:
            return
        if draft.residency & TIER2 and draft.key != payload.key:
            if draft.pending & DELETING:
                self._deletes[draft.key] = None
            else:
                self.anomalies[Anomaly.OBJECT_REPLACED] += 1
        if payload.key in self._deletes:  # that delete now belongs to the entry
            del self._deletes[payload.key]
            draft.key = payload.key
            draft.pending |= DELETING

    def _note_delete_queued(self, draft: Draft | None, payload: Tier2DeleteQueued) -> None:
        if draft is None or draft.key != payload.key or not draft.residency & TIER2:
            self._deletes[payload.key] = None

    def _note_deleted(self, _: Draft | None, payload: Tier2Deleted) -> None:
        self._deletes.pop(payload.key, None)


def fold(records: Iterable[ManifestRecord], *, until_ms: int | None = None) -> ManifestIndex:
    """Computes the index from records; with `until_ms`, only from records up to that time."""
    index = ManifestIndex()
    apply = index.apply
    for record in records:
        if until_ms is None or record.timestamp_ms <= until_ms:
            apply(record)
    return index


_Note = Callable[[ManifestIndex, Draft | None, Any], None]
_NOTES: dict[type, _Note] = {
    SealSegment: ManifestIndex._note_seal,
    UploadDone: ManifestIndex._note_upload,
    Tier2DeleteQueued: ManifestIndex._note_delete_queued,
    Tier2Deleted: ManifestIndex._note_deleted,
}
_RULES = {
    kind: (transition, _NOTES.get(kind), kind in CREATING)
    for kind, transition in TRANSITIONS.items()
}
