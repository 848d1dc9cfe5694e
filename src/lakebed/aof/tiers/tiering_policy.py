"""When a sealed segment is compressed and uploaded: appends go first while Tier 0 has room.

Decisions over values, without I/O. It is time for a segment

- in a pause: nothing was flushed for a moment;
- or when it has waited for one long enough: a stream that never pauses is stored, too;
- or under pressure: what may not leave Tier 0 yet is more than the part that is kept for bursts,
  or an append waits for room.

That part is made free in pauses, by evicting. So a burst that fits it meets nothing that works
beside it: eviction costs syncs, as compression costs the processor.
"""

from __future__ import annotations

from typing import NamedTuple


class TieringPolicy(NamedTuple):
    """The settings, see `TierConfig`."""

    pause_ns: int
    wait_ns_max: int
    burst_percent: int

    def burst_bytes(self, bytes_max: int) -> int:
        """How much of a budget is kept for bursts."""
        return bytes_max * self.burst_percent // 100


class Fill(NamedTuple):
    """How much of a budget is taken by what may not leave yet."""

    held_bytes: int
    bytes_max: int


class Load(NamedTuple):
    """How a log stands, at a moment."""

    now_ns: int
    busy_at_ns: int  # when something was flushed last
    fills: tuple[Fill, ...]  # of every budget that the log has a part in
    is_refused: bool  # an append waits for room


def is_time(load: Load, pacing: TieringPolicy, *, waiting_since_ns: int) -> bool:
    """Whether a segment that is ready since then is worked on now."""
    has_waited = load.now_ns - waiting_since_ns >= pacing.wait_ns_max
    return has_waited or is_pause(load, pacing) or is_pressed(load, pacing)


def is_pause(load: Load, pacing: TieringPolicy) -> bool:
    return load.now_ns - load.busy_at_ns >= pacing.pause_ns


def is_pressed(load: Load, pacing: TieringPolicy) -> bool:
    """Whether room is short: appends would soon wait for the tiers, if these waited for them."""
    is_short = any(fill.held_bytes > pacing.burst_bytes(fill.bytes_max) for fill in load.fills)
    return is_short or load.is_refused


def pause_due_ns(load: Load, pacing: TieringPolicy) -> int:
    """How long until there may be a pause, if nothing is flushed until then; 0 in one."""
    return max(0, load.busy_at_ns + pacing.pause_ns - load.now_ns)


def time_due_ns(load: Load, pacing: TieringPolicy, *, waiting_since_ns: int) -> int:
    """How long until it may be time for the segment; 0 if it is."""
    if is_time(load, pacing, waiting_since_ns=waiting_since_ns):
        return 0
    waited_at_ns = waiting_since_ns + pacing.wait_ns_max
    return min(pause_due_ns(load, pacing), waited_at_ns - load.now_ns)
