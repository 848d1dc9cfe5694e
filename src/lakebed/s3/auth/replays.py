"""Detects replayed requests by remembering recent signatures.

The memory is bounded: signatures are dropped when they expire, and the oldest are dropped when
there are too many. A client that retries a request within the same second sends the same signature,
so a repeated signature is only logged, unless `replay_block` is configured. Presigned URLs are
meant to be used repeatedly and are not checked.
"""

from __future__ import annotations

import logging
from collections import OrderedDict

from lakebed.base.clock import NS_PER_MS, Clock
from lakebed.s3.errors import S3Error
from lakebed.seglake.endpoint_config import EndpointConfig

_log = logging.getLogger(__name__)


class Replays:
    """The recent signatures of one S3 endpoint. Not thread-safe."""

    def __init__(self, config: EndpointConfig, *, clock: Clock) -> None:
        self._clock = clock
        self._ttl_ns = config.replay_ttl_ms * NS_PER_MS
        self._blocks = config.replay_block
        self._count_max = config.replay_cache_max
        self.detected = 0
        self._seen_ns: OrderedDict[str, int] = OrderedDict()  # by signature, oldest first

    def __len__(self) -> int:
        return len(self._seen_ns)

    def check(self, signature: str, *, access_key: str) -> None:
        """Records a verified signature, and logs a warning if it is already recorded.

        If it is recorded and `replay_block` is configured, raises the S3 error `AccessDenied`.
        """
        now_ns = self._clock.monotonic_ns()
        received_ns = self._seen_ns
        while received_ns and next(iter(received_ns.values())) <= now_ns - self._ttl_ns:
            received_ns.popitem(last=False)
        if signature in received_ns:
            self.detected += 1
            _log.warning("access key %s: a request repeats an earlier signature", access_key)
            if self._blocks:
                raise S3Error("AccessDenied", "A request with this signature was already received.")
            return
        received_ns[signature] = now_ns
        if len(received_ns) > self._count_max:
            received_ns.popitem(last=False)
