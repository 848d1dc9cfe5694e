"""Compares the manifest log with the copies that really exist in Tiers 1 and 2, after a restart.

When a log is opened, its warm files are checked: records that correct the manifest log are added,
and warm files of segments that are not recorded as in Tier 1 are deleted. With tiering on, Tier 2
is checked later in the background, because it may be slow or unreachable: a missing object is
uploaded again from a local copy or, if there is none, its segment is marked as needing repair.
Missing objects of the manifest log's chunks are uploaded again too. Objects that the manifest log
does not list are not touched.
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
    """A record that corrects the manifest log about one segment."""

    payload: Payload
    segment_id: int
    logical_offset: int


def corrections(states: Iterable[SegmentState], *, warm: Collection[int]) -> Iterator[Correction]:
    """Yields the records that make the manifest log agree with the existing warm files.

    `warm` has the ids of the segments with a warm file. Also yields records that end hydrations
    which a crash interrupted, and that queue the deletion of objects whose segment is no longer in
    the log.
    """
    for state in states:
        for payload in _corrections(state, has_warm=state.segment_id in warm):
            yield Correction(payload, state.segment_id, state.base_offset)


def _corrections(state: SegmentState, *, has_warm: bool) -> Iterator[Payload]:
    if state.pending & Pending.HYDRATION:
        yield HydrationFailed(ReasonCode.TRANSIENT)
    is_stray = not state.is_opened and bool(state.residency & Residency.TIER2)
    if is_stray and not state.pending & Pending.DELETE:
        # The upload finished after the segment had left the log.
        yield Tier2DeleteQueued(state.key)
    if state.residency & Residency.TIER1 and not has_warm:
        if state.residency & Residency.TIER0:
            yield CompressionStarted(state.segment_id)  # it will be compressed again
        elif state.residency & Residency.TIER2:
            yield LocalEvicted(state.compressed_bytes)
        else:
            yield HydrationFailed(ReasonCode.MISSING)


def orphans(states: Iterable[SegmentState], *, warm: Iterable[int]) -> set[int]:
    """Returns the ids of the segments with a warm file that are not recorded as in Tier 1."""
    recorded = {state.segment_id for state in states if state.residency & Residency.TIER1}
    return set(warm) - recorded


def doubtful(
    states: Iterable[SegmentState], *, listed: Mapping[str, ObjectInfo]
) -> list[SegmentState]:
    """Returns the segments whose object is not listed with the recorded size and ETag.

    A listing may be outdated, so the caller must check each object.
    """
    return [
        state
        for state in states
        if state.is_opened
        and state.residency & Residency.TIER2
        and not state.pending & Pending.DELETE
        and not _is_as_stored(state, listed.get(state.key))
    ]


def _is_as_stored(state: SegmentState, listed: ObjectInfo | None) -> bool:
    return listed is not None and (listed.size, listed.etag) == (state.compressed_bytes, state.etag)
