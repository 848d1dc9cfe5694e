"""Which calls are made again, and when."""

from __future__ import annotations

from random import Random

import pytest

from lakebed.aof.errors import BackpressureKind, WouldBlock
from lakebed.base.clock import NS_PER_MS, NS_PER_S
from lakebed.base.errors import Busy, Closed, Corrupt, LakebedError, NoSpace, NotFound
from lakebed.client.errors import Failure
from lakebed.client.retry_schedule import RetrySchedule


def patience(*, is_repeatable: bool = False, busy_s: float | None = None) -> RetrySchedule:
    return RetrySchedule(
        is_repeatable=is_repeatable, now_ns=0, retry_s=10, busy_s=busy_s, random=Random(1)
    )


@pytest.mark.parametrize(
    ("is_sent", "heals", "is_repeatable", "is_tried_again"),
    [
        (False, True, False, True),
        (False, True, True, True),
        (True, True, True, True),
        (True, True, False, False),
        (False, False, True, False),
        (True, False, True, False),
    ],
)
def test_after_a_failure(
    is_sent: bool, heals: bool, is_repeatable: bool, is_tried_again: bool
) -> None:
    failure = Failure("why", is_sent=is_sent, heals=heals)
    delay_ns = patience(is_repeatable=is_repeatable).after_failure(failure, now_ns=0)
    assert (delay_ns is not None) == is_tried_again


def test_delays_double_with_jitter_up_to_a_second() -> None:
    mine, failure = patience(is_repeatable=True), Failure("why", is_sent=True)
    delays_ms = []
    for _ in range(10):
        delay_ns = mine.after_failure(failure, now_ns=0)
        assert delay_ns is not None
        delays_ms.append(delay_ns / NS_PER_MS)
    for number, delay_ms in enumerate(delays_ms):
        full_ms = min(10 * 2**number, 1000)
        assert full_ms / 2 <= delay_ms <= full_ms
    assert len(set(delays_ms)) == len(delays_ms)


def test_no_try_begins_behind_the_deadline() -> None:
    failure = Failure("why", is_sent=False)
    assert patience().after_failure(failure, now_ns=9 * NS_PER_S) is not None
    assert patience().after_failure(failure, now_ns=10 * NS_PER_S) is None


@pytest.mark.parametrize(
    ("error", "status", "is_repeatable", "is_tried_again"),
    [
        (Busy("full"), 429, False, True),
        (Busy("full"), 503, False, True),
        (Closed("closing"), 503, True, True),
        (Closed("closing"), 503, False, False),
        (WouldBlock(BackpressureKind.FLUSH, "full"), 429, True, False),
        (NoSpace("full"), 507, True, False),
        (NotFound("gone"), 404, True, False),
        (Corrupt("bad"), 500, True, False),
    ],
)
def test_after_a_refusal(
    error: LakebedError, status: int, is_repeatable: bool, is_tried_again: bool
) -> None:
    delay_ns = patience(is_repeatable=is_repeatable).after_refusal(
        error, status=status, retry_after_s=1, now_ns=0
    )
    assert (delay_ns is not None) == is_tried_again
    assert delay_ns is None or delay_ns >= NS_PER_S


def test_a_server_that_asks_for_more_time_than_there_is_gets_none() -> None:
    for retry_after_s, is_tried_again in ((9, True), (10, False), (10**9, False)):
        delay_ns = patience().after_refusal(
            Busy("full"), status=503, retry_after_s=retry_after_s, now_ns=0
        )
        assert (delay_ns is not None) == is_tried_again


def test_who_said_how_long_to_wait_for_room_waits_no_longer() -> None:
    busy = Busy("full")
    for busy_s, is_tried_again in ((0.0, False), (1.0, False), (2.0, True), (None, True)):
        delay_ns = patience(busy_s=busy_s).after_refusal(
            busy, status=429, retry_after_s=1, now_ns=0
        )
        assert (delay_ns is not None) == is_tried_again
