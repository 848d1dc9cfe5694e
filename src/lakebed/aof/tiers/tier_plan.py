"""Decides which segment to compress, upload or evict next, without I/O.

- Every sealed segment is compressed and then uploaded, oldest first, unless it is damaged. A
  segment whose move failed waits for its retry. An upload that Tier 2 refused, because of the
  credentials or a missing permission, waits for an operator.
- If Tier 0 exceeds its budget, the least recently used segments are evicted, if Tier 2 has them and
  they are not pinned.
- The same holds for Tier 1, but warm files of segments that are also in Tier 0 are kept.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import NamedTuple

from lakebed.aof.manifest.records import ReasonCode
from lakebed.aof.manifest.state import Failures, Residency, SegmentState


class Circumstances(NamedTuple):
    """The facts that the decisions need in addition to the segments' states."""

    claimed: Collection[int]  # segments being moved
    retry_at_ns: Mapping[int, int]  # when a failed segment may be retried
    used_at_ns: Mapping[int, int]  # when a reader last used the segment
    is_pinned: Callable[[int], bool]
    now_ns: int


def next_compression(
    states: Iterable[SegmentState], circumstances: Circumstances
) -> SegmentState | None:
    """Returns the oldest segment that is only in Tier 0 and may be compressed now, or None."""
    return _first(states, circumstances, _wants_compression)


def next_upload(
    states: Iterable[SegmentState], circumstances: Circumstances
) -> SegmentState | None:
    """Returns the oldest segment with a warm file but no object that may be uploaded, or None."""
    return _first(states, circumstances, _wants_upload)


def next_due_ns(states: Iterable[SegmentState], circumstances: Circumstances) -> int | None:
    """Returns the nanoseconds until the next retry of a failed compression or upload.

    Returns None if no retry is scheduled.
    """
    delays = [
        circumstances.retry_at_ns[state.segment_id] - circumstances.now_ns
        for state in states
        if circumstances.retry_at_ns.get(state.segment_id, 0) > circumstances.now_ns
        and (_wants_compression(state) or _wants_upload(state))
    ]
    return min(delays, default=None)


def eviction_due_ns(states: Iterable[SegmentState], circumstances: Circumstances) -> int | None:
    """Returns the nanoseconds until a segment whose last move failed may be evicted, or None."""
    delays = [
        circumstances.retry_at_ns.get(state.segment_id, 0) - circumstances.now_ns
        for state in states
        if _is_kept(state)
    ]
    return min((delay for delay in delays if delay > 0), default=None)


def waiting(states: Iterable[SegmentState]) -> set[int]:
    """Returns the ids of the segments that must be compressed or uploaded."""
    return {
        state.segment_id for state in states if _wants_compression(state) or _wants_upload(state)
    }


def held_bytes(states: Iterable[SegmentState]) -> int:
    """Returns the number of bytes in Tier 0 that Tier 2 has no intact copy of.

    They cannot be evicted. Pins are not considered.
    """
    return sum(
        state.durable_bytes
        for state in states
        if state.residency & Residency.TIER0 and not _is_kept(state)
    )


def tier0_evictions(
    states: Iterable[SegmentState], circumstances: Circumstances, *, excess_bytes: int
) -> Iterator[SegmentState]:
    """Yields the segments to evict from Tier 0, so that at least `excess_bytes` are freed.

    Yields fewer if no other segment can be evicted.
    """
    evictable = [
        state
        for state in states
        if state.residency & Residency.TIER0 and _is_stored(state, circumstances)
    ]
    return _until(
        sorted(evictable, key=_recency(circumstances)),
        excess_bytes,
        lambda state: state.durable_bytes,
    )


def tier1_evictions(
    states: Iterable[SegmentState], circumstances: Circumstances, *, excess_bytes: int
) -> Iterator[SegmentState]:
    """Yields the segments to evict from Tier 1, so that at least `excess_bytes` are freed.

    Yields fewer if no other segment can be evicted. Segments that are also in Tier 0 stay.
    """
    evictable = [
        state
        for state in states
        if state.residency & Residency.TIER1
        and not state.residency & Residency.TIER0
        and _is_stored(state, circumstances)
    ]
    return _until(
        sorted(evictable, key=_recency(circumstances)),
        excess_bytes,
        lambda state: state.compressed_bytes,
    )


def _wants_compression(state: SegmentState) -> bool:
    is_here = state.is_sealed and state.is_opened and bool(state.residency & Residency.TIER0)
    is_damaged = (
        bool(state.failures & Failures.COMPRESSION) and state.compression_reason == ReasonCode.CODEC
    )
    return is_here and not state.residency & (Residency.TIER1 | Residency.TIER2) and not is_damaged


def _wants_upload(state: SegmentState) -> bool:
    is_refused = (
        bool(state.failures & Failures.UPLOAD) and state.upload_reason == ReasonCode.UNAUTHORISED
    )
    return (
        state.is_sealed
        and bool(state.residency & Residency.TIER1)
        and not state.residency & Residency.TIER2
        and not is_refused
    )


def _first(
    states: Iterable[SegmentState],
    circumstances: Circumstances,
    is_next: Callable[[SegmentState], bool],
) -> SegmentState | None:
    for state in states:
        number = state.segment_id
        is_due = circumstances.retry_at_ns.get(number, 0) <= circumstances.now_ns
        if is_due and number not in circumstances.claimed and is_next(state):
            return state
    return None


def _is_stored(state: SegmentState, circumstances: Circumstances) -> bool:
    """Returns whether a local copy of the segment may be evicted now.

    Tier 2 must have the segment, and the segment must be neither pinned nor being moved. If a move
    of it failed, the retry must be due.
    """
    return (
        _is_kept(state)
        and state.segment_id not in circumstances.claimed
        and circumstances.retry_at_ns.get(state.segment_id, 0) <= circumstances.now_ns
        and not circumstances.is_pinned(state.segment_id)
    )


def _is_kept(state: SegmentState) -> bool:
    return state.is_sealed and state.is_stored


def _recency(circumstances: Circumstances) -> Callable[[SegmentState], tuple[int, int]]:
    return lambda state: (circumstances.used_at_ns.get(state.segment_id, 0), state.segment_id)


def _until(
    states: Iterable[SegmentState], excess_bytes: int, size: Callable[[SegmentState], int]
) -> Iterator[SegmentState]:
    for state in states:
        if excess_bytes <= 0:
            return
        excess_bytes -= size(state)
        yield state
