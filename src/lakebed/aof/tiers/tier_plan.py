"""What is to be done next with the tiers: decisions over values, without I/O.

- Every sealed segment is compressed, then uploaded: the oldest first. What failed waits its time;
  what was refused for want of rights waits for an operator.
- Tier 0 holds what fits its budget with room for the next segment: beyond that the segments leave
  that were used least recently, if Tier 2 has them and nobody pins them.
- Tier 1 the same, but for the warm files of segments that are in Tier 0 too.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import NamedTuple

from lakebed.aof.manifest.records import ReasonCode
from lakebed.aof.manifest.state import Failures, Pending, Residency, SegmentState


class Circumstances(NamedTuple):
    """What is known of a log's segments besides their states."""

    claimed: Collection[int]  # being moved
    retry_at_ns: Mapping[int, int]  # when something that failed may be tried again
    used_at_ns: Mapping[int, int]  # by a reader; 0 if never
    is_pinned: Callable[[int], bool]
    now_ns: int


def next_compression(states: Iterable[SegmentState], around: Circumstances) -> SegmentState | None:
    """The oldest segment that no colder tier has."""
    return _first(states, around, _wants_compression)


def next_upload(states: Iterable[SegmentState], around: Circumstances) -> SegmentState | None:
    """The oldest segment that has a warm file and no object."""
    return _first(states, around, _wants_upload)


def next_due_ns(states: Iterable[SegmentState], around: Circumstances) -> int | None:
    """How long until something that failed may be tried again; None if nothing is to be."""
    waiting = [
        around.retry_at_ns[state.segment_id] - around.now_ns
        for state in states
        if around.retry_at_ns.get(state.segment_id, 0) > around.now_ns
        and (_wants_compression(state) or _wants_upload(state))
    ]
    return min(waiting, default=None)


def waiting(states: Iterable[SegmentState]) -> set[int]:
    """Segments that are to be compressed or uploaded."""
    return {s.segment_id for s in states if _wants_compression(s) or _wants_upload(s)}


def held_bytes(states: Iterable[SegmentState]) -> int:
    """Of Tier 0, what may not leave it yet: no colder tier keeps it. Pins are not looked at."""
    return sum(
        state.durable_bytes
        for state in states
        if state.residency & Residency.TIER0 and not _is_kept(state)
    )


def tier0_evictions(
    states: Iterable[SegmentState], around: Circumstances, *, excess_bytes: int
) -> Iterator[SegmentState]:
    """Segments to take out of Tier 0, until that much is free or none is left that may go."""
    may_go = [
        state for state in states if state.residency & Residency.TIER0 and _is_stored(state, around)
    ]
    return _until(sorted(may_go, key=_recency(around)), excess_bytes, lambda s: s.durable_bytes)


def tier1_evictions(
    states: Iterable[SegmentState], around: Circumstances, *, excess_bytes: int
) -> Iterator[SegmentState]:
    """The same for Tier 1, of segments that are not in Tier 0."""
    may_go = [
        state
        for state in states
        if state.residency & Residency.TIER1
        and not state.residency & Residency.TIER0
        and _is_stored(state, around)
    ]
    return _until(sorted(may_go, key=_recency(around)), excess_bytes, lambda s: s.compressed_bytes)


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
    around: Circumstances,
    is_wanted: Callable[[SegmentState], bool],
) -> SegmentState | None:
    for state in states:
        number = state.segment_id
        is_due = around.retry_at_ns.get(number, 0) <= around.now_ns
        if is_due and number not in around.claimed and is_wanted(state):
            return state
    return None


def _is_stored(state: SegmentState, around: Circumstances) -> bool:
    """Whether a local copy may go: Tier 2 has the segment, and keeps it; nobody needs it here."""
    return (
        _is_kept(state)
        and state.segment_id not in around.claimed
        and not around.is_pinned(state.segment_id)
    )


def _is_kept(state: SegmentState) -> bool:
    return (
        state.is_sealed
        and bool(state.residency & Residency.TIER2)
        and not state.pending & Pending.DELETE
        and not state.needs_repair
    )


def _recency(around: Circumstances) -> Callable[[SegmentState], tuple[int, int]]:
    return lambda state: (around.used_at_ns.get(state.segment_id, 0), state.segment_id)


def _until(
    states: Iterable[SegmentState], excess_bytes: int, size: Callable[[SegmentState], int]
) -> Iterator[SegmentState]:
    for state in states:
        if excess_bytes <= 0:
            return
        excess_bytes -= size(state)
        yield state
