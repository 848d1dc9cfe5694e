"""Which sealed segments leave the log, and how: decided here, from values alone.

The oldest go first, and only a run of the oldest: a segment that somebody still needs (a reader, a
pin) keeps all behind it. The last sealed one always stays, for the sealed pointer names it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from lakebed.aof.config import RetentionConfig
from lakebed.base.clock import NS_PER_MS


class Sealed(NamedTuple):
    """What retention looks at."""

    segment_id: int
    size: int  # bytes up to the end of its records
    sealed_at: int  # ns since 1970


def is_wanted(config: RetentionConfig) -> bool:
    return bool(config.age_ms_max or config.bytes_max or config.count_max)


def expired(
    segments: Sequence[Sealed],
    *,
    config: RetentionConfig,
    now_ns: int,
    is_needed: Callable[[int], bool],
) -> list[int]:
    """The ids of the segments to remove, oldest first. `segments` are sorted by id."""
    total = sum(segment.size for segment in segments)
    count = len(segments)
    gone: list[int] = []
    for segment in segments[:-1]:
        age_ns = now_ns - segment.sealed_at
        too_old = 0 < config.age_ms_max * NS_PER_MS < age_ns
        too_much = 0 < config.bytes_max < total
        too_many = 0 < config.count_max < count
        if not (too_old or too_much or too_many) or is_needed(segment.segment_id):
            break
        gone.append(segment.segment_id)
        total -= segment.size
        count -= 1
    return gone


def next_look_ns(segments: Sequence[Sealed], *, config: RetentionConfig, now_ns: int) -> int | None:
    """When age alone will next make one expire; None if it never does."""
    if not config.age_ms_max or len(segments) < 2:
        return None
    due_ns = segments[0].sealed_at + config.age_ms_max * NS_PER_MS + 1
    return max(due_ns - now_ns, NS_PER_MS)
