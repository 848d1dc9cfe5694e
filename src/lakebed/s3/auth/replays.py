"""Signatures that were seen of late: the same one again may be a request that somebody replays.

Bounded: the oldest are forgotten first, when their time is over or there are too many. A client
that repeats a request within the second it was signed in repeats the signature too, so that a
replay is only logged unless blocking is asked for. URLs that were presigned are made to be used
repeatedly and are not looked at.
"""

from __future__ import annotations

import logging
from collections import OrderedDict

from lakebed.base.clock import NS_PER_MS, Clock
from lakebed.s3.errors import S3Error
from lakebed.seglake.endpoint_config import EndpointConfig

_log = logging.getLogger(__name__)


class Replays:
    """In one thread."""

    def __init__(self, config: EndpointConfig, *, clock: Clock) -> None:
        self._clock = clock
        self._ttl_ns = config.replay_ttl_ms * NS_PER_MS
        self._blocks = config.replay_block
        self._count_max = config.replay_cache_max
        self.detected = 0
        self._seen_ns: OrderedDict[str, int] = OrderedDict()  # by signature, the oldest first

    def __len__(self) -> int:
        return len(self._seen_ns)

    def check(self, signature: str, *, access_key: str) -> None:
        """Of a request whose signature is right. Refused if it is a replay and they are blocked."""
        now_ns = self._clock.monotonic_ns()
        seen = self._seen_ns
        while seen and next(iter(seen.values())) <= now_ns - self._ttl_ns:
            seen.popitem(last=False)
        if signature in seen:
            self.detected += 1
            _log.warning("a request of %s came again with the same signature", access_key)
            if self._blocks:
                raise S3Error("AccessDenied", "A request with this signature was already received.")
            return
        seen[signature] = now_ns
        if len(seen) > self._count_max:
            seen.popitem(last=False)
