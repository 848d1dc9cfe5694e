"""The state of one segment according to the manifest log, and a mutable version of it, the draft.

The fields are those of `SnapshotEntry`, in the same order, with the strings themselves instead of
their offsets and lengths. Flags are stored as plain integers, because replays are then several
times faster; to get an enum, write `Residency(state.residency)`. Unknown bits are kept.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum, IntFlag
from operator import attrgetter
from typing import NamedTuple


class Residency(IntFlag):
    """The tiers that have a copy of the segment."""

    TIER0 = 1  # the segment file
    TIER1 = 2  # the warm file
    TIER2 = 4  # the object


class Pending(IntFlag):
    """Kinds of work on a segment that were started or queued and are not recorded as ended."""

    COMPRESSION = 1
    UPLOAD = 2
    HYDRATION = 4
    DELETE = 8  # of the Tier 2 object


class Condition(IntFlag):
    """Flags for facts about a segment that do not depend on a tier."""

    OPENED = 1  # not set if its `SegmentOpened` record is missing
    SEALED = 2
    FLUSH_FAILURE = 4
    NEEDS_REPAIR = 8


class Failures(IntFlag):
    """Kinds of work on a segment whose last attempt failed.

    The start of a new attempt does not clear the flag; a success does.
    """

    COMPRESSION = 1
    UPLOAD = 2
    HYDRATION = 4


class SegmentState(NamedTuple):
    """The state of one segment. Its times are those of the records that changed it."""

    segment_id: int
    base_offset: int
    durable_bytes: int
    segment_crc64: int
    ext_id: int
    coordinator_watermark: int
    opened_at_ms: int
    sealed_at_ms: int
    changed_at_ms: int
    resident_bytes: int  # in Tier 0; 0 until it is sealed
    compressed_bytes: int  # of the warm file, and of the object made from it
    key: str
    etag: str
    upload_key: str  # of the running upload, or of the last one that failed
    epoch: int
    dictionary_id: int
    job_id: int  # of the last compression
    residency: int
    pending: int
    condition: int
    hydration_source: int  # tier of the last hydration
    failures: int
    compression_reason: int  # reason code of the failure; 0 if it did not fail
    upload_reason: int
    hydration_reason: int

    @property
    def is_opened(self) -> bool:
        return bool(self.condition & Condition.OPENED.value)

    @property
    def is_sealed(self) -> bool:
        return bool(self.condition & Condition.SEALED.value)

    @property
    def needs_repair(self) -> bool:
        return bool(self.condition & Condition.NEEDS_REPAIR.value)

    @property
    def is_held(self) -> bool:
        """Whether a tier has the segment, not counting an object whose delete is queued."""
        is_deleting = self.pending & Pending.DELETE.value
        return bool(self.residency & ~Residency.TIER2.value if is_deleting else self.residency)

    @property
    def is_cold(self) -> bool:
        """Whether the segment is part of the log but only in colder tiers than Tier 0."""
        is_part = self.is_sealed and self.is_opened and self.is_held
        return is_part and not self.residency & Residency.TIER0.value

    @property
    def is_stored(self) -> bool:
        """Whether Tier 2 has an intact copy that stays there, so local copies may be evicted."""
        is_doubtful = self.needs_repair or bool(self.pending & Pending.DELETE.value)
        return bool(self.residency & Residency.TIER2.value) and not is_doubtful

    def owns_object(self, key: str) -> bool:
        """Returns whether `key` is the key of the segment's object in Tier 2."""
        return self.key == key and bool(self.residency & Residency.TIER2.value)


@dataclass(slots=True, eq=False)
class Draft:
    """The mutable version of a `SegmentState`, with the same fields; by default all are empty."""

    segment_id: int
    base_offset: int = 0
    durable_bytes: int = 0
    segment_crc64: int = 0
    ext_id: int = 0
    coordinator_watermark: int = 0
    opened_at_ms: int = 0
    sealed_at_ms: int = 0
    changed_at_ms: int = 0
    resident_bytes: int = 0
    compressed_bytes: int = 0
    key: str = ""
    etag: str = ""
    upload_key: str = ""
    epoch: int = 0
    dictionary_id: int = 0
    job_id: int = 0
    residency: int = 0
    pending: int = 0
    condition: int = 0
    hydration_source: int = 0
    failures: int = 0
    compression_reason: int = 0
    upload_reason: int = 0
    hydration_reason: int = 0


_values = attrgetter(*SegmentState._fields)


def frozen(draft: Draft) -> SegmentState:
    return SegmentState._make(_values(draft))


class ReconciliationKind(Enum):
    """Why a segment's files or object must be checked after a restart."""

    NOT_OPENED = "not opened"
    NEEDS_REPAIR = "needs repair"
    COMPRESSION = "compression unfinished"
    UPLOAD = "upload unfinished"
    HYDRATION = "hydration unfinished"
    DELETE = "delete unfinished"  # of the segment's own object
    ORPHAN_DELETE = "delete of an orphan unfinished"


class Reconciliation(NamedTuple):
    """A segment or an object that must be checked after a restart, and why."""

    segment_id: int  # MANIFEST_ITSELF for an object that belongs to no segment
    kind: ReconciliationKind
    key: str = ""  # of the object to upload or delete


def open_questions(state: SegmentState) -> Iterator[Reconciliation]:
    """Yields what must be checked about a segment: everything that its records leave uncertain."""
    if state.is_opened and not state.pending and not state.needs_repair:
        return
    kinds = ReconciliationKind
    if not state.is_opened:
        yield Reconciliation(state.segment_id, kinds.NOT_OPENED)
    if state.needs_repair:
        yield Reconciliation(state.segment_id, kinds.NEEDS_REPAIR)
    if state.pending & Pending.COMPRESSION:
        yield Reconciliation(state.segment_id, kinds.COMPRESSION)
    if state.pending & Pending.UPLOAD:
        yield Reconciliation(state.segment_id, kinds.UPLOAD, state.upload_key)
    if state.pending & Pending.HYDRATION:
        yield Reconciliation(state.segment_id, kinds.HYDRATION)
    if state.pending & Pending.DELETE:
        yield Reconciliation(state.segment_id, kinds.DELETE, state.key)
