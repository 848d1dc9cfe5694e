"""How much work the demo does, computed from the number of events."""

from __future__ import annotations

from typing import Final, NamedTuple

EVENT_COUNT: Final = 300_000
EVENT_COUNT_REFERENCE: Final = 30_000  # without compiled kernels
EVENT_COUNT_MIN: Final = 1_000


class Scale(NamedTuple):
    """How many events, messages and records each station of the demo uses."""

    events: int  # produced at the start
    settled: int  # messages that the consumer group settles
    records: int  # of the log that is moved through the tiers
    more_events: int  # produced before the node is killed, and again after it is back


def scale_of(event_count: int) -> Scale:
    return Scale(
        events=event_count,
        settled=event_count // 10,
        records=event_count // 2,
        more_events=event_count // 10,
    )


def default_event_count(*, is_compiled: bool) -> int:
    return EVENT_COUNT if is_compiled else EVENT_COUNT_REFERENCE
