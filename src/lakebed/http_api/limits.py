"""What all requests together may hold of the store's memory and threads."""

from __future__ import annotations

from dataclasses import dataclass

from lakebed.base.config import bounded, check
from lakebed.base.units import GIB, KIB, MIB, TIB


@dataclass(frozen=True, kw_only=True)
class ApiLimits:
    """Beyond them a request is told to come again later. Who waits for messages counts too."""

    requests_max: int = bounded(4_000, minimum=1, maximum=1_000_000)  # under way
    key_requests_max: int = bounded(1_000, minimum=1, maximum=1_000_000)  # of one access key
    body_bytes_max: int = bounded(256 * MIB, minimum=64 * KIB, maximum=TIB)  # of all bodies
    streamed_bytes: int = bounded(4 * MIB, minimum=64 * KIB, maximum=GIB)  # of one passed on
    threads_max: int = bounded(16, minimum=1, maximum=1_000)  # that wait for the disk
    waiting_max: int = bounded(1_000, minimum=1, maximum=1_000_000)  # for one of these threads
    jobs_max: int = bounded(4, minimum=1, maximum=100)  # long ones, at a time
    jobs_kept: int = bounded(100, minimum=1, maximum=10_000)  # after their end

    def __post_init__(self) -> None:
        check(self)
