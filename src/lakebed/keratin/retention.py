"""Decides, without I/O, where a partition begins after retention.

Segments are removed from the oldest on. A segment that is still needed keeps all later ones too.
The active segment is never removed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from lakebed.keratin.config import TopicConfig


class Candidate(NamedTuple):
    """A sealed segment that retention may remove."""

    base_offset: int
    next_offset: int
    size: int
    latest_ms: int  # its largest timestamp, but at most the time it was sealed


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
    """Returns the new start offset, or None if nothing is removed. `segments` are oldest first."""
    total = active_bytes + sum(segment.size for segment in segments)
    start = None
    for segment in segments:
        is_too_old = 0 < config.retention_ms < now_ms - segment.latest_ms
        # At least `retention_bytes` are kept, as in Kafka.
        is_too_much = 0 < config.retention_bytes <= total - segment.size
        if not (is_too_old or is_too_much) or is_needed(segment):
            break
        start = segment.next_offset
        total -= segment.size
    return start
