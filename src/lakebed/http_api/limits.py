"""Limits on the memory and threads that all requests of the API use together."""

from __future__ import annotations

from dataclasses import dataclass

from lakebed.base.config import bounded, check
from lakebed.base.units import GIB, KIB, MIB, TIB


@dataclass(frozen=True, kw_only=True)
class ApiLimits:
    """Limits of the HTTP API.

    A request is refused with a retryable error if it would exceed the limit of requests (for the
    limit of one access key, only after a short wait), of calls that wait for a thread, of body
    bytes, or of jobs. Requests that wait for messages count too.
    """

    requests_max: int = bounded(4_000, minimum=1, maximum=1_000_000)  # at a time
    key_requests_max: int = bounded(1_000, minimum=1, maximum=1_000_000)  # of one access key
    body_bytes_max: int = bounded(256 * MIB, minimum=64 * KIB, maximum=TIB)  # of all bodies
    streamed_bytes: int = bounded(4 * MIB, minimum=64 * KIB, maximum=GIB)  # per streamed body
    threads_max: int = bounded(16, minimum=1, maximum=1_000)  # for blocking calls
    waiting_max: int = bounded(
        1_000, minimum=1, maximum=1_000_000
    )  # calls that wait for such a thread
    jobs_max: int = bounded(4, minimum=1, maximum=100)  # at a time
    jobs_kept: int = bounded(100, minimum=1, maximum=10_000)  # ended jobs whose state is kept

    def __post_init__(self) -> None:
        check(self)
