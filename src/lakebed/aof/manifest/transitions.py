"""How each type of manifest record changes the state of its segment: one function for each type.

A transition changes only the draft of its segment's state. It returns True if the segment's entry
must be removed. A transition never fails, whatever the record contains.

- A record about a file, an object or running work creates the segment's entry if there is none; the
  flag `OPENED` is set only by `SegmentOpened`. A record about a failed compression or hydration, an
  eviction or a delete creates no entry.
- `LocalEvicted` removes the segment from Tier 0, or from Tier 1 if it is not in Tier 0. No other
  record reports that a warm file was removed.
- When no tier has the segment after an eviction or a delete, its entry is removed, even if work on
  it was pending. An object whose delete is queued does not count.
- While a warm file is being created again from Tier 0, the old warm file does not count.
- An upload clears the flag `NEEDS_REPAIR` if only a missing object had set it. A hydration always
  clears the flag, because the copy in Tier 0 is new and can be compressed again. A compression
  clears it unless a hydration failed, because a compression reads the whole segment.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lakebed.aof.manifest.format import (
    CompressionDone,
    CompressionFailed,
    CompressionStarted,
    HydrationDone,
    HydrationFailed,
    HydrationStarted,
    LocalEvicted,
    SealSegment,
    SegmentOpened,
)
from lakebed.aof.manifest.records import (
    ReasonCode,
    Tier2Deleted,
    Tier2DeleteQueued,
    UploadDone,
    UploadFailed,
    UploadStarted,
)
from lakebed.aof.manifest.state import Condition, Draft, Failures, Pending, Residency

# Plain integers: operations on the enums would take most of the time.
TIER0, TIER1, TIER2 = (flag.value for flag in Residency)
COMPRESSING, UPLOADING, HYDRATING, DELETING = (flag.value for flag in Pending)
OPENED, SEALED, FLUSH_FAILURE, NEEDS_REPAIR = (flag.value for flag in Condition)
COMPRESSION_FAILED, UPLOAD_FAILED, HYDRATION_FAILED = (flag.value for flag in Failures)
CODEC, MISSING = ReasonCode.CODEC.value, ReasonCode.MISSING.value
U32_MAX = (1 << 32) - 1


def _opened(draft: Draft, payload: SegmentOpened, timestamp_ms: int) -> None:
    draft.base_offset, draft.epoch = payload
    if not draft.residency & TIER0:
        draft.residency |= TIER0
        draft.resident_bytes = draft.durable_bytes
        _discount_warm_file(draft)
    draft.condition |= OPENED
    draft.opened_at_ms = draft.changed_at_ms = timestamp_ms


def _sealed(draft: Draft, payload: SealSegment, timestamp_ms: int) -> None:
    (
        draft.durable_bytes,
        draft.segment_crc64,
        draft.ext_id,
        draft.coordinator_watermark,
        flush_failure,
    ) = payload
    draft.condition = draft.condition & ~FLUSH_FAILURE | SEALED
    if flush_failure:
        draft.condition |= FLUSH_FAILURE
    if draft.residency & TIER0:
        draft.resident_bytes = draft.durable_bytes
    draft.sealed_at_ms = draft.changed_at_ms = timestamp_ms


def _compression_started(draft: Draft, payload: CompressionStarted, timestamp_ms: int) -> None:
    (draft.job_id,) = payload
    draft.pending |= COMPRESSING
    _discount_warm_file(draft)
    draft.changed_at_ms = timestamp_ms


def _compression_done(draft: Draft, payload: CompressionDone, timestamp_ms: int) -> None:
    draft.compressed_bytes, draft.dictionary_id = payload
    draft.residency |= TIER1
    draft.pending &= ~COMPRESSING
    draft.failures &= ~COMPRESSION_FAILED
    draft.compression_reason = 0
    if not draft.failures & HYDRATION_FAILED:
        draft.condition &= ~NEEDS_REPAIR
    draft.changed_at_ms = timestamp_ms


def _compression_failed(draft: Draft, payload: CompressionFailed, timestamp_ms: int) -> None:
    (draft.compression_reason,) = payload
    draft.pending &= ~COMPRESSING
    draft.failures |= COMPRESSION_FAILED
    if draft.compression_reason == CODEC:
        draft.condition |= NEEDS_REPAIR
    draft.changed_at_ms = timestamp_ms


def _upload_started(draft: Draft, payload: UploadStarted, timestamp_ms: int) -> None:
    (draft.upload_key,) = payload
    draft.pending |= UPLOADING
    draft.changed_at_ms = timestamp_ms


def _upload_done(draft: Draft, payload: UploadDone, timestamp_ms: int) -> None:
    if draft.key != payload.key:
        draft.pending &= ~DELETING  # the queued delete was of the previous object
    draft.key, draft.etag = payload
    draft.upload_key = ""
    draft.residency |= TIER2
    draft.pending &= ~UPLOADING
    draft.failures &= ~UPLOAD_FAILED
    draft.upload_reason = 0
    if draft.hydration_reason == MISSING:
        draft.failures &= ~HYDRATION_FAILED
        draft.hydration_reason = 0
        if draft.compression_reason != CODEC:
            draft.condition &= ~NEEDS_REPAIR
    draft.changed_at_ms = timestamp_ms


def _upload_failed(draft: Draft, payload: UploadFailed, timestamp_ms: int) -> None:
    draft.upload_key, draft.upload_reason = payload
    draft.pending &= ~UPLOADING
    draft.failures |= UPLOAD_FAILED
    draft.changed_at_ms = timestamp_ms


def _delete_queued(draft: Draft, payload: Tier2DeleteQueued, timestamp_ms: int) -> None:
    if draft.key == payload.key and draft.residency & TIER2:
        draft.pending |= DELETING
        draft.changed_at_ms = timestamp_ms


def _deleted(draft: Draft, payload: Tier2Deleted, timestamp_ms: int) -> bool:
    if not (draft.key == payload.key and draft.residency & TIER2):
        return False
    draft.key = draft.etag = ""
    draft.residency &= ~TIER2
    draft.pending &= ~DELETING
    draft.changed_at_ms = timestamp_ms
    return _is_let_go(draft)


def _hydration_started(draft: Draft, payload: HydrationStarted, timestamp_ms: int) -> None:
    draft.hydration_source = min(
        payload.source_tier, U32_MAX
    )  # an entry has 32 bits for this field
    draft.pending |= HYDRATING
    draft.changed_at_ms = timestamp_ms


def _hydration_done(draft: Draft, payload: HydrationDone, timestamp_ms: int) -> None:
    (draft.resident_bytes,) = payload
    draft.residency |= TIER0
    _discount_warm_file(draft)
    draft.pending &= ~HYDRATING
    draft.failures &= ~HYDRATION_FAILED
    draft.hydration_reason = 0
    draft.condition &= ~NEEDS_REPAIR
    if draft.compression_reason == CODEC:
        draft.failures &= ~COMPRESSION_FAILED
        draft.compression_reason = 0
        if not draft.pending & COMPRESSING:
            draft.job_id = 0
    draft.changed_at_ms = timestamp_ms


def _hydration_failed(draft: Draft, payload: HydrationFailed, timestamp_ms: int) -> None:
    (draft.hydration_reason,) = payload
    draft.pending &= ~HYDRATING
    draft.failures |= HYDRATION_FAILED
    if draft.hydration_reason == MISSING:
        draft.condition |= NEEDS_REPAIR
    draft.changed_at_ms = timestamp_ms


def _evicted(draft: Draft, _: LocalEvicted, timestamp_ms: int) -> bool:
    draft.residency &= ~TIER0 if draft.residency & TIER0 else ~TIER1
    draft.resident_bytes = 0
    draft.changed_at_ms = timestamp_ms
    return _is_let_go(draft)


def _discount_warm_file(draft: Draft) -> None:
    """Removes Tier 1 from the recorded tiers while the warm file is created again from Tier 0."""
    if draft.pending & COMPRESSING and draft.residency & TIER1 and draft.residency & TIER0:
        draft.residency &= ~TIER1
        _forget_warm_file(draft)


def _forget_warm_file(draft: Draft) -> None:
    """Clears the fields about the warm file if the segment is neither in Tier 1 nor in Tier 2."""
    if not draft.residency & (TIER1 | TIER2):
        draft.compressed_bytes = draft.dictionary_id = 0
        if not draft.pending & COMPRESSING:
            draft.job_id = 0


def _is_let_go(draft: Draft) -> bool:
    """Returns whether no tier has the segment, not counting an object whose delete is queued.

    Also clears the fields about the warm file if they no longer apply.
    """
    _forget_warm_file(draft)
    return not (draft.residency & ~TIER2 if draft.pending & DELETING else draft.residency)


Transition = Callable[[Draft, Any, int], bool | None]

TRANSITIONS: dict[type, Transition] = {
    SegmentOpened: _opened,
    SealSegment: _sealed,
    CompressionStarted: _compression_started,
    CompressionDone: _compression_done,
    CompressionFailed: _compression_failed,
    UploadStarted: _upload_started,
    UploadDone: _upload_done,
    UploadFailed: _upload_failed,
    Tier2DeleteQueued: _delete_queued,
    Tier2Deleted: _deleted,
    HydrationStarted: _hydration_started,
    HydrationDone: _hydration_done,
    HydrationFailed: _hydration_failed,
    LocalEvicted: _evicted,
}
"""The transition of each record type. Other and unknown types change no segment."""

CREATING = TRANSITIONS.keys() - {
    CompressionFailed,
    Tier2DeleteQueued,
    Tier2Deleted,
    HydrationFailed,
    LocalEvicted,
}
"""The record types that create an entry if there is none."""
