"""Decides, without I/O, where a partition begins after retention.

Segments are removed in order, beginning with the oldest. A segment that is still needed, for
example because it is pinned, is kept, and so are all later ones. The active segment is never
removed. A segment that was sealed while the clock was ahead counts as sealed when the next segment
was, so that it does not keep others from being removed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from lakebed.base.clock import believable
from lakebed.keratin.config import TopicConfig


class Candidate(NamedTuple):
    """A sealed segment that retention may remove."""

    base_offset: int
    next_offset: int
    size: int
    newest_ms: int | None  # its largest timestamp; None if it is not known
    sealed_ms: int  # when it was sealed, since 1970


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
    """Returns the new start offset of the partition, or None if no segment is removed.

    `segments` are all sealed segments, oldest first, and `active_bytes` is the size of the active
    one. `is_needed` returns whether a segment must be kept.
    """
    total = active_bytes + sum(segment.size for segment in segments)
    start = None
    all_sealed_ms = believable([segment.sealed_ms for segment in segments], now=now_ms)
    for segment, sealed_ms in zip(segments, all_sealed_ms, strict=True):
        # Producers choose timestamps: one in the future must not keep a segment longer.
        latest_ms = sealed_ms if segment.newest_ms is None else min(segment.newest_ms, sealed_ms)
        is_too_old = 0 < config.retention_ms < now_ms - latest_ms
        # At least `retention_bytes` are kept, as in Kafka.
        is_too_much = 0 < config.retention_bytes <= total - segment.size
        if not (is_too_old or is_too_much) or is_needed(segment):
            break
        start = segment.next_offset
        total -= segment.size
    return start
