"""After a restart: what the manifest log says of the colder tiers, against what is there.

Local copies are looked after when a log is opened: the records that set the manifest log right,
and the files that belong to nobody. Tier 2 is looked after in the background, for it may be slow or
out of reach: every object that should be there is, or is made anew from a local copy, or its
segment is marked as in need of repair. The same for the chunks of the manifest log that are here
still. What is not known to the manifest log is left alone there.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import NamedTuple

from lakebed.aof.manifest.format import (
    CompressionStarted,
    HydrationFailed,
    LocalEvicted,
)
from lakebed.aof.manifest.records import Payload, ReasonCode, Tier2DeleteQueued
from lakebed.aof.manifest.state import Pending, Residency, SegmentState
from lakebed.aof.tiers.object_store import ObjectInfo


class Correction(NamedTuple):
    """A record that sets the manifest log right about one segment."""

    payload: Payload
    segment_id: int
    logical_offset: int


def corrections(states: Iterable[SegmentState], *, warm: Collection[int]) -> Iterator[Correction]:
    """What a crash left unsaid, given the segments that have a warm file."""
    for state in states:
        for payload in _corrections(state, has_warm=state.segment_id in warm):
            yield Correction(payload, state.segment_id, state.base_offset)


def _corrections(state: SegmentState, *, has_warm: bool) -> Iterator[Payload]:
    if state.pending & Pending.HYDRATION:
        yield HydrationFailed(ReasonCode.TRANSIENT)
    is_stray = not state.is_opened and bool(state.residency & Residency.TIER2)
    if is_stray and not state.pending & Pending.DELETE:
        # An upload that came to its end when the segment was gone already.
        yield Tier2DeleteQueued(state.key)
    if state.residency & Residency.TIER1 and not has_warm:
        if state.residency & Residency.TIER0:
            yield CompressionStarted(state.segment_id)  # it will be made anew
        elif state.residency & Residency.TIER2:
            yield LocalEvicted(state.compressed_bytes)
        else:
            yield HydrationFailed(ReasonCode.MISSING)


def orphans(states: Iterable[SegmentState], *, warm: Iterable[int]) -> set[int]:
    """Segments with a warm file that the manifest log does not count on."""
    known = {state.segment_id for state in states if state.residency & Residency.TIER1}
    return set(warm) - known


def doubtful(
    states: Iterable[SegmentState], *, listed: Mapping[str, ObjectInfo]
) -> list[SegmentState]:
    """Segments whose object a listing does not show as it was stored, by size and ETag.

    A listing may be behind, so each is looked up.
    """
    return [
        state
        for state in states
        if state.is_opened
        and state.residency & Residency.TIER2
        and not state.pending & Pending.DELETE
        and not _is_as_stored(state, listed.get(state.key))
    ]


def _is_as_stored(state: SegmentState, found: ObjectInfo | None) -> bool:
    return found is not None and (found.size, found.etag) == (state.compressed_bytes, state.etag)
