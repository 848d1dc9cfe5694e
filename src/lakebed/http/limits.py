"""What a client may make the server hold, and how long it may make it wait."""

from __future__ import annotations

from dataclasses import dataclass

from lakebed.base.config import bounded, check
from lakebed.base.units import GIB, KIB, MIB

_DAY_S = 24 * 3600


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Timers are looked at once a second, so each may be late by that much."""

    url_bytes_max: int = bounded(16 * KIB, minimum=64, maximum=MIB)
    header_bytes_max: int = bounded(32 * KIB, minimum=256, maximum=MIB)
    header_count_max: int = bounded(200, minimum=1, maximum=10_000)
    small_body_bytes: int = bounded(64 * KIB, minimum=0, maximum=MIB)  # kept until it is whole
    read_ahead_bytes: int = bounded(256 * KIB, minimum=4 * KIB, maximum=GIB)  # of a body, unread
    pipelined_bytes: int = bounded(64 * KIB, minimum=KIB, maximum=MIB)  # behind the request
    pipelined_requests: int = bounded(16, minimum=1, maximum=1_000)  # answered in one turn
    linger_bytes_max: int = bounded(16 * MIB, minimum=0, maximum=GIB)  # read after the last answer
    connections_max: int = bounded(10_000, minimum=1, maximum=1_000_000)

    header_s: float = bounded(10.0, minimum=0.1, maximum=_DAY_S)  # for a whole head
    keep_alive_s: float = bounded(75.0, minimum=0.1, maximum=_DAY_S)  # between requests
    body_idle_s: float = bounded(30.0, minimum=0.1, maximum=_DAY_S)  # without a byte of a body
    write_s: float = bounded(60.0, minimum=0.1, maximum=_DAY_S)  # without a byte taken
    rate_bytes_min: int = bounded(KIB, minimum=0, maximum=GIB)  # a second, both ways; 0: any
    rate_grace_s: float = bounded(60.0, minimum=0.1, maximum=_DAY_S)  # so long behind that rate
    linger_s: float = bounded(5.0, minimum=0.1, maximum=_DAY_S)

    def __post_init__(self) -> None:
        check(self)

    @property
    def head_bytes_max(self) -> int:
        """Of a whole head: request line and header."""
        return self.url_bytes_max + self.header_bytes_max
