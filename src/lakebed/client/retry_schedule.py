"""Decides whether and when a failed call is retried. The caller does the waiting.

A retry is safe if the call never reached the server, or if the server refused it because it is busy
or not ready (then nothing was changed). After a lost response, a retry is safe only if the call is
repeatable: it does no harm to run it twice. If a retry after a lost response is refused, the
refusal does not show whether the earlier attempt ran, so the outcome of the call is unknown.
Retries end at a deadline.
"""

from __future__ import annotations

from random import Random

from lakebed.aof.errors import WouldBlock
from lakebed.base.clock import NS_PER_S
from lakebed.base.errors import Busy, Closed, LakebedError
from lakebed.base.retry import Backoff, RetryPolicy
from lakebed.client.errors import Failure

POLICY = RetryPolicy(delay_ms_first=10.0, delay_ms_max=1000.0, jitter=0.5)
RETRY_S = 10.0
RETRY_AFTER_S_MAX = 3600
REFUSALS = frozenset({429, 503})  # statuses that allow a retry


class RetrySchedule:
    """Schedules the retries of one call."""

    def __init__(
        self,
        *,
        is_repeatable: bool,
        now_ns: int,
        retry_s: float,
        busy_s: float | None,
        random: Random,
    ) -> None:
        """`retry_s` limits how long the call is retried; `busy_s`, if given and shorter, limits
        retries after `Busy`."""
        self._is_repeatable = is_repeatable
        self._until_ns = now_ns + round(retry_s * NS_PER_S)
        self._busy_until_ns = self._until_ns
        if busy_s is not None:
            self._busy_until_ns = min(self._until_ns, now_ns + round(busy_s * NS_PER_S))
        self._backoff = Backoff(POLICY, random)

    def after_failure(self, failure: Failure, *, now_ns: int) -> int | None:
        """Returns how many ns to wait before the next attempt of a call that got no response, or
        None if the call must not be retried."""
        if not failure.heals or (failure.is_sent and not self._is_repeatable):
            return None
        return self._within(self._backoff.next_ns(), now_ns, self._until_ns)

    def after_refusal(
        self, error: LakebedError, *, status: int, retry_after_s: int, now_ns: int
    ) -> int | None:
        """Returns how many ns to wait before the next attempt of a call to which the server
        responded with `error`, or None if the call must not be retried."""
        if status not in REFUSALS or isinstance(error, WouldBlock):
            return None  # `append_record` never waits: its caller decides
        if isinstance(error, Closed) and not self._is_repeatable:
            return None  # the store may have been closed while the call ran
        until_ns = self._busy_until_ns if isinstance(error, Busy) else self._until_ns
        delay_ns = self._backoff.next_ns() + min(retry_after_s, RETRY_AFTER_S_MAX) * NS_PER_S
        return self._within(delay_ns, now_ns, until_ns)

    def _within(self, delay_ns: int, now_ns: int, until_ns: int) -> int | None:
        return delay_ns if now_ns + delay_ns <= until_ns else None
