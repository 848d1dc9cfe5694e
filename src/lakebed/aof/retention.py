"""Decides which sealed segments retention removes from the log, without I/O.

Segments are removed oldest first, so a segment that a follower or a pin still needs also keeps all
newer segments. The newest sealed segment always stays, because the sealed pointer names it. If a
segment was sealed while the clock was ahead, it counts as sealed no later than the next segment, so
that it does not delay the removal of others.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from lakebed.aof.config import RetentionConfig
from lakebed.base.clock import NS_PER_MS, NS_PER_S, believable

HELD_LOOK_NS = 5 * NS_PER_S
"""How long until a segment that a pin or a follower needs is checked again. No notification comes
when another process removes a pin or a follower moves on."""


class SealedSegment(NamedTuple):
    """The facts about a sealed segment that decide whether retention removes it."""

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
    """Returns the ids of the segments to remove, oldest first. `segments` must be sorted by id.

    `is_needed` returns whether a follower or a pin needs the segment with that id.
    """
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
    """Returns the nanoseconds until `segments`, which remain in the log, must be checked again.

    Returns None if they need no check until another segment is sealed. Returns
    `HELD_LOOK_NS` if a limit is exceeded: a follower or a pin then still needs a segment.
    """
    if expired(segments, config=config, now_ns=now_ns, is_needed=lambda _: False):
        return HELD_LOOK_NS
    if not config.age_ms_max or len(segments) < 2:
        return None
    return _sealed_at(segments, now_ns)[0] + config.age_ms_max * NS_PER_MS + 1 - now_ns


def _sealed_at(segments: Sequence[SealedSegment], now_ns: int) -> list[int]:
    return believable([segment.sealed_at for segment in segments], now=now_ns)
