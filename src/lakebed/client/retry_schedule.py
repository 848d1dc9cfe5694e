"""Whether a call that failed is made again, and when: decided here, waited for elsewhere.

What is safe to repeat: a call that provably never reached the server; one that was refused because
the server is busy or not ready (nothing was changed); and after a lost answer, only one that done
twice is as done once. A refusal behind a lost answer tells nothing of the try before it: whoever
gives up then does not know. Waiting ends at a deadline.
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
REFUSALS = frozenset({429, 503})  # statuses: come again


class RetrySchedule:
    """Of one call."""

    def __init__(
        self,
        *,
        is_repeatable: bool,
        now_ns: int,
        retry_s: float,
        busy_s: float | None,
        random: Random,
    ) -> None:
        """`busy_s`: for how long a refusal is waited out, if the caller said so."""
        self._is_repeatable = is_repeatable
        self._until_ns = now_ns + round(retry_s * NS_PER_S)
        self._busy_until_ns = self._until_ns
        if busy_s is not None:
            self._busy_until_ns = min(self._until_ns, now_ns + round(busy_s * NS_PER_S))
        self._backoff = Backoff(POLICY, random)

    def after_failure(self, failure: Failure, *, now_ns: int) -> int | None:
        """How many ns to wait before it is tried again; None: not at all."""
        if not failure.heals or (failure.is_sent and not self._is_repeatable):
            return None
        return self._within(self._backoff.next_ns(), now_ns, self._until_ns)

    def after_refusal(
        self, error: LakebedError, *, status: int, retry_after_s: int, now_ns: int
    ) -> int | None:
        """The same, of an answer that is an error."""
        if status not in REFUSALS or isinstance(error, WouldBlock):
            return None  # whoever appends to a log decides themselves what to do meanwhile
        if isinstance(error, Closed) and not self._is_repeatable:
            return None  # it may have been closed in the middle of it
        until_ns = self._busy_until_ns if isinstance(error, Busy) else self._until_ns
        delay_ns = self._backoff.next_ns() + min(retry_after_s, RETRY_AFTER_S_MAX) * NS_PER_S
        return self._within(delay_ns, now_ns, until_ns)

    def _within(self, delay_ns: int, now_ns: int, until_ns: int) -> int | None:
        return delay_ns if now_ns + delay_ns <= until_ns else None
