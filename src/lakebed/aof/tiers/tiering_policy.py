"""Decides when a sealed segment is compressed and uploaded: appends go first while Tier 0 has room.

The decisions need no I/O. A segment is due

- in a pause: nothing was flushed for a while;
- or when it has waited long enough for one, so that a log that never pauses is stored, too;
- or under pressure: the bytes that cannot leave Tier 0 yet exceed the part that is kept for bursts,
  or an append waits for room.

That part is freed in pauses, by evicting. So no tiering work runs during a burst that fits it:
eviction costs syncs, and compression costs processor time.
"""

from __future__ import annotations

from typing import NamedTuple


class TieringPolicy(NamedTuple):
    """The settings of the policy; see `TierConfig`."""

    pause_ns: int
    wait_ns_max: int
    burst_percent: int

    def burst_bytes(self, bytes_max: int) -> int:
        """Returns how much of a budget is kept for bursts."""
        return bytes_max * self.burst_percent // 100


class Fill(NamedTuple):
    """How much of a budget is held by bytes that cannot leave yet."""

    held_bytes: int
    bytes_max: int


class Load(NamedTuple):
    """The load of a log at one moment."""

    now_ns: int
    busy_at_ns: int  # time of the last flush
    fills: tuple[Fill, ...]  # one for each budget that covers the log
    is_refused: bool  # an append waits for room


def is_time(load: Load, pacing: TieringPolicy, *, waiting_since_ns: int) -> bool:
    """Returns whether a segment that has been ready since then is due now."""
    has_waited = load.now_ns - waiting_since_ns >= pacing.wait_ns_max
    return has_waited or is_pause(load, pacing) or is_pressed(load, pacing)


def is_pause(load: Load, pacing: TieringPolicy) -> bool:
    return load.now_ns - load.busy_at_ns >= pacing.pause_ns


def is_pressed(load: Load, pacing: TieringPolicy) -> bool:
    """Returns whether Tier 0 is so full that appends would soon wait for the tiers."""
    is_short = any(fill.held_bytes > pacing.burst_bytes(fill.bytes_max) for fill in load.fills)
    return is_short or load.is_refused


def pause_due_ns(load: Load, pacing: TieringPolicy) -> int:
    """Returns how long until a pause begins if nothing is flushed until then; 0 during one."""
    return max(0, load.busy_at_ns + pacing.pause_ns - load.now_ns)


def time_due_ns(load: Load, pacing: TieringPolicy, *, waiting_since_ns: int) -> int:
    """Returns how long until the segment may be due; 0 if it is due now."""
    if is_time(load, pacing, waiting_since_ns=waiting_since_ns):
        return 0
    waited_at_ns = waiting_since_ns + pacing.wait_ns_max
    return min(pause_due_ns(load, pacing), waited_at_ns - load.now_ns)
