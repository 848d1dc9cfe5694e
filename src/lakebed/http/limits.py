"""The limits on the memory that a client can use and the time that it can make the server wait."""

from __future__ import annotations

from dataclasses import dataclass

from lakebed.base.config import bounded, check
from lakebed.base.units import GIB, KIB, MIB

_DAY_S = 24 * 3600


@dataclass(frozen=True, kw_only=True)
class Limits:
    """The limits of an HTTP server.

    The timers are checked once a second, so a timer may expire up to a second late.
    """

    url_bytes_max: int = bounded(16 * KIB, minimum=64, maximum=MIB)
    header_bytes_max: int = bounded(32 * KIB, minimum=256, maximum=MIB)
    header_count_max: int = bounded(200, minimum=1, maximum=10_000)
    small_body_bytes: int = bounded(
        64 * KIB, minimum=0, maximum=MIB
    )  # received completely before the handler is called
    read_ahead_bytes: int = bounded(256 * KIB, minimum=4 * KIB, maximum=GIB)  # buffered body bytes
    pipelined_bytes: int = bounded(64 * KIB, minimum=KIB, maximum=MIB)  # buffered later requests
    pipelined_requests: int = bounded(16, minimum=1, maximum=1_000)  # per turn of the event loop
    linger_bytes_max: int = bounded(16 * MIB, minimum=0, maximum=GIB)  # dropped before closing
    connections_max: int = bounded(10_000, minimum=1, maximum=1_000_000)

    header_s: float = bounded(10.0, minimum=0.1, maximum=_DAY_S)  # for a head or TLS handshake
    keep_alive_s: float = bounded(75.0, minimum=0.1, maximum=_DAY_S)  # between requests
    body_idle_s: float = bounded(30.0, minimum=0.1, maximum=_DAY_S)  # between bytes of a body
    write_s: float = bounded(60.0, minimum=0.1, maximum=_DAY_S)  # between received response bytes
    rate_bytes_min: int = bounded(KIB, minimum=0, maximum=GIB)  # per second, each way; 0: no limit
    rate_grace_s: float = bounded(60.0, minimum=0.1, maximum=_DAY_S)  # lag allowed at that rate
    linger_s: float = bounded(5.0, minimum=0.1, maximum=_DAY_S)  # to drop bytes before closing

    def __post_init__(self) -> None:
        check(self)
