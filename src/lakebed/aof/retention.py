"""Decides which sealed segments leave the log, without I/O.

The oldest leave first: a segment that a reader or a pin still needs also keeps all segments after
it. The last sealed segment always stays, because the sealed pointer names it. A segment that was
sealed while the clock was ahead counts as old as the next one, so that it holds back no other.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from lakebed.aof.config import RetentionConfig
from lakebed.base.clock import NS_PER_MS, NS_PER_S, believable

HELD_LOOK_NS = 5 * NS_PER_S
"""How long until a held segment is checked again. Another process may remove a pin, and a reader
may move on, without a notification."""


class SealedSegment(NamedTuple):
    """The facts about a segment from which retention decides."""

    segment_id: int
    size: int  # bytes up to the end of its records
    sealed_at: int  # ns since 1970


def is_wanted(config: RetentionConfig) -> bool:
    return bool(config.age_ms_max or config.bytes_max or config.count_max)


def expired(
    segments: Sequence[SealedSegment],
    *,
    config: RetentionConfig,
    now_ns: int,
    is_needed: Callable[[int], bool],
) -> list[int]:
    """Returns the ids of the segments to remove, oldest first. `segments` are sorted by id."""
    total = sum(segment.size for segment in segments)
    count = len(segments)
    expired_ids: list[int] = []
    for segment, sealed_at in zip(segments[:-1], _sealed_at(segments, now_ns), strict=False):
        age_ns = now_ns - sealed_at
        too_old = 0 < config.age_ms_max * NS_PER_MS < age_ns
        too_much = 0 < config.bytes_max < total
        too_many = 0 < config.count_max < count
        if not (too_old or too_much or too_many) or is_needed(segment.segment_id):
            break
        expired_ids.append(segment.segment_id)
        total -= segment.size
        count -= 1
    return expired_ids


def next_look_ns(
    segments: Sequence[SealedSegment], *, config: RetentionConfig, now_ns: int
) -> int | None:
    """Returns how long until the remaining segments must be checked again, or None.

    If a segment should have left already, a reader or a pin holds it.
    """
    if expired(segments, config=config, now_ns=now_ns, is_needed=lambda _: False):
        return HELD_LOOK_NS
    if not config.age_ms_max or len(segments) < 2:
        return None
    return _sealed_at(segments, now_ns)[0] + config.age_ms_max * NS_PER_MS + 1 - now_ns


def _sealed_at(segments: Sequence[SealedSegment], now_ns: int) -> list[int]:
    return believable([segment.sealed_at for segment in segments], now=now_ns)
