"""Where a partition begins after retention: decided here, from values alone.

The oldest segments go first, and only a run of the oldest: one that somebody still needs keeps all
behind it. The active segment always stays.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from lakebed.keratin.config import TopicConfig


class Candidate(NamedTuple):
    """A sealed segment, as retention sees it."""

    base_offset: int
    next_offset: int
    size: int
    latest_ms: int  # its largest timestamp, but not behind the moment it was sealed


def is_wanted(config: TopicConfig) -> bool:
    return bool(config.retention_ms or config.retention_bytes)


def start_after_retention(
    segments: Sequence[Candidate],
    *,
    config: TopicConfig,
    active_bytes: int,
    now_ms: int,
    is_needed: Callable[[Candidate], bool],
) -> int | None:
    """The new start offset; None if nothing goes. `segments` are oldest first."""
    total = active_bytes + sum(segment.size for segment in segments)
    start = None
    for segment in segments:
        is_too_old = 0 < config.retention_ms < now_ms - segment.latest_ms
        # As much is kept as the limit asks for, not less: Kafka's rule.
        is_too_much = 0 < config.retention_bytes <= total - segment.size
        if not (is_too_old or is_too_much) or is_needed(segment):
            break
        start = segment.next_offset
        total -= segment.size
    return start
