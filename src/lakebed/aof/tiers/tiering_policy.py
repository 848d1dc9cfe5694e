"""Decides when a sealed segment is compressed and uploaded, without slowing bursts of appends.

The decisions need no I/O. A segment is due

- in a pause, when nothing was flushed for a while;
- when it has waited `wait_ns_max` for a pause, so that logs without pauses are uploaded too;
- when space is short: the bytes that cannot be evicted from Tier 0 yet exceed the share of Tier 0
  that is kept for bursts, or an append waits for space.

The share for bursts is freed by evictions in pauses. So during a burst that fits in it, no segment
is compressed, uploaded or evicted, which would slow the appends down, unless it has waited
`wait_ns_max`.
"""

from __future__ import annotations

from typing import NamedTuple


class TieringPolicy(NamedTuple):
    """The settings of the policy, from `TierConfig`, with times in nanoseconds."""

    pause_ns: int
    wait_ns_max: int
    burst_percent: int

    def burst_bytes(self, bytes_max: int) -> int:
        """Returns how many bytes of a budget of `bytes_max` are kept free for bursts of appends."""
        return bytes_max * self.burst_percent // 100


class Fill(NamedTuple):
    """A budget of Tier 0, and how many of its bytes are used by data that cannot be evicted yet."""

    held_bytes: int
    bytes_max: int


class Load(NamedTuple):
    """The load of a log at one moment."""

    now_ns: int
    busy_at_ns: int  # time of the last flush
    fills: tuple[Fill, ...]  # one for each budget that covers the log
    is_refused: bool  # an append waits for room


def is_time(load: Load, pacing: TieringPolicy, *, waiting_since_ns: int) -> bool:
    """Returns whether a segment that has waited since `waiting_since_ns` is due now."""
    has_waited = load.now_ns - waiting_since_ns >= pacing.wait_ns_max
    return has_waited or is_pause(load, pacing) or is_pressed(load, pacing)


def is_pause(load: Load, pacing: TieringPolicy) -> bool:
    return load.now_ns - load.busy_at_ns >= pacing.pause_ns


def is_pressed(load: Load, pacing: TieringPolicy) -> bool:
    """Returns whether Tier 0 is so full that appends wait for space, or soon will."""
    is_short = any(fill.held_bytes > pacing.burst_bytes(fill.bytes_max) for fill in load.fills)
    return is_short or load.is_refused


def pause_due_ns(load: Load, pacing: TieringPolicy) -> int:
    """Returns the nanoseconds until a pause begins, if nothing is flushed before; 0 in a pause."""
    return max(0, load.busy_at_ns + pacing.pause_ns - load.now_ns)


def time_due_ns(load: Load, pacing: TieringPolicy, *, waiting_since_ns: int) -> int:
    """Returns the nanoseconds until a segment may be due; 0 if it is due now.

    The segment has waited since `waiting_since_ns`.
    """
    if is_time(load, pacing, waiting_since_ns=waiting_since_ns):
        return 0
    waited_at_ns = waiting_since_ns + pacing.wait_ns_max
    return min(pause_due_ns(load, pacing), waited_at_ns - load.now_ns)
