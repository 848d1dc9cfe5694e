"""A description of a group at one moment, for people and for metrics."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from lakebed.stroma.message_status import StatusKind
from lakebed.stroma.state import GroupState


@dataclass(frozen=True, kw_only=True, slots=True)
class GroupPartition:
    """The state of a group in one partition.

    The fields from `lag` to `settled_ahead` are numbers of messages.
    """

    acked_until: int  # every message before it is settled
    looked_until: int  # messages from here on have not been examined yet
    high_watermark: int
    lag: int  # messages that are not settled
    in_flight: int
    waiting: int  # for a delay or a schedule
    exhausted: int  # leased at least `delivery_count_max` times; due for the dead-letter topic
    settled_ahead: int  # settled after the first unsettled message
    epoch: int  # the last epoch used
    generation: int
    snapshot_bytes: int
    delta_bytes: int
    delta_events: int
    unknown_events: int  # of unknown types, skipped when the group was opened
    flagged_events: int  # with unknown flags
    problems: tuple[str, ...]  # found when the group was opened


def count_messages(state: GroupState) -> tuple[int, int]:
    """Returns the number of waiting messages and the number of exhausted ones.

    Exhausted messages were leased at least `delivery_count_max` times, and are due for the
    dead-letter topic. Counting takes time in proportion to the number of runs of messages with the
    same status.
    """
    counts: Counter[bool] = Counter()
    for start, end, status in state.runs:
        if status.kind is StatusKind.WAITING:
            counts[True] += end - start
        elif status.kind is StatusKind.AVAILABLE and state.is_exhausted(status.deliveries):
            counts[False] += end - start
    return counts[True], counts[False]
