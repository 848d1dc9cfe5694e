"""A group at one moment, for people and for metrics."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from lakebed.stroma.message_status import StatusKind
from lakebed.stroma.state import GroupState


@dataclass(frozen=True, kw_only=True, slots=True)
class GroupPartition:
    """A group in one partition. Counts are of messages, but for the last ones."""

    acked_until: int  # every message before it is settled
    looked_until: int  # nobody looked at those from there on
    high_watermark: int
    lag: int  # not settled
    in_flight: int
    waiting: int  # for a delay, or their time
    exhausted: int  # leased too often; for the dead-letter topic
    settled_ahead: int  # of a gap
    epoch: int
    generation: int
    snapshot_bytes: int
    delta_bytes: int
    delta_events: int
    unknown_events: int  # met at the opening: skipped
    flagged_events: int
    problems: tuple[str, ...]  # met at the opening


def count_messages(state: GroupState) -> tuple[int, int]:
    """How many wait, and how many are exhausted. Walks all runs."""
    counts: Counter[bool] = Counter()
    for start, end, status in state.runs:
        if status.kind is StatusKind.WAITING:
            counts[True] += end - start
        elif status.kind is StatusKind.AVAILABLE and state.is_exhausted(status.deliveries):
            counts[False] += end - start
    return counts[True], counts[False]
