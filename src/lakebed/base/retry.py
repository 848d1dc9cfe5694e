"""Retries failed calls with exponential delays, jitter and a cap.

`RetryPolicy` computes the delays, and `retry` calls a function and waits between attempts. The
caller decides after which errors the function is called again: never after a failed sync.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from random import Random
from typing import TypeVar

from lakebed.base.clock import NS_PER_MS
from lakebed.base.config import bounded, check
from lakebed.base.errors import BadConfig, RetryError

Result = TypeVar("Result")


@dataclass(frozen=True, kw_only=True)
class RetryPolicy:
    """The number of attempts, and the delays between them.

    The delay starts at `delay_ms_first` and doubles up to `delay_ms_max`. With jitter *j*, the
    actual delay is drawn uniformly from `[(1 - j) * delay, delay]`.
    """

    attempts: int = bounded(5, minimum=1, maximum=1000)
    delay_ms_first: float = bounded(5.0, minimum=0.0, maximum=3_600_000.0)
    delay_ms_max: float = bounded(250.0, minimum=0.0, maximum=3_600_000.0)
    jitter: float = bounded(0.5, minimum=0.0, maximum=1.0)

    def __post_init__(self) -> None:
        check(self)
        if self.delay_ms_first > self.delay_ms_max:
            raise BadConfig(
                f"delay_ms_first is {self.delay_ms_first}, "
                f"more than delay_ms_max ({self.delay_ms_max})"
            )

    def delays_ns(self, random: Random) -> Iterator[int]:
        """Yields the delays between the attempts in ns: one fewer than there are attempts."""
        delay_ms = self.delay_ms_first
        for _ in range(self.attempts - 1):
            yield round(delay_ms * (1 - self.jitter * random.random()) * NS_PER_MS)
            delay_ms = min(delay_ms * 2, self.delay_ms_max)


class Backoff:
    """The delays of a `RetryPolicy` for work that is retried until it succeeds."""

    def __init__(self, policy: RetryPolicy, random: Random) -> None:
        self._policy = policy
        self._random = random
        self._delay_ms = policy.delay_ms_first

    def next_ns(self) -> int:
        """Returns the delay in ns after one more failure. Without jitter, the delay doubles with
        each call, up to `delay_ms_max`.
        """
        delay_ms = self._delay_ms
        self._delay_ms = min(delay_ms * 2, self._policy.delay_ms_max)
        return round(delay_ms * (1 - self._policy.jitter * self._random.random()) * NS_PER_MS)

    def reset(self) -> None:
        """Starts over with the first delay. Call this after a success."""
        self._delay_ms = self._policy.delay_ms_first


def is_retryable(error: Exception) -> bool:
    """Returns whether the error is a `RetryError`. The default condition of `retry`."""
    return isinstance(error, RetryError)


def retry(
    call: Callable[[], Result],
    *,
    policy: RetryPolicy,
    random: Random,
    sleep_ns: Callable[[int], None],
    may_repeat: Callable[[Exception], bool] = is_retryable,
    on_retry: Callable[[Exception], None] | None = None,
) -> Result:
    """Calls `call` until it succeeds, at most `policy.attempts` times, and returns its result.

    Raises the error of `call` if `may_repeat` returns False for it, or if the last attempt failed.
    `on_retry` is called with the error before each wait.
    """
    delays = policy.delays_ns(random)
    while True:
        try:
            return call()
        except Exception as error:
            delay_ns = next(delays, None)
            if delay_ns is None or not may_repeat(error):
                raise
            if on_retry is not None:
                on_retry(error)
        sleep_ns(delay_ns)
