"""What is told of several appends, of which one could not be begun and others failed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

from lakebed.api.problems import Unreachable
from lakebed.base.commit import Ticket
from lakebed.base.commit.batch import Batch
from lakebed.base.errors import Busy, LakebedError, NoSpace, OutcomeUnknown, SyncFailed
from lakebed.base.simulation.world import World
from lakebed.keratin.append_future import AppendFuture, after_failure
from lakebed.keratin.errors import AppendedPart, PartlyAppended
from lakebed.keratin.writer_requests import Appended

FULL = Busy("the queue of writes is full")
FAILED = SyncFailed("fdatasync", "/topics/orders/0/0.log")


class Begun(NamedTuple):
    partition: int
    outcome: Appended | LakebedError

    def result(self) -> Appended:
        if isinstance(self.outcome, LakebedError):
            raise self.outcome
        return self.outcome


@pytest.mark.parametrize("unknown", [FAILED, Unreachable("not known")])
def test_a_full_queue_does_not_hide_that_of_another_append_nothing_is_known(
    unknown: LakebedError,
) -> None:
    assert after_failure(FULL, [Begun(0, unknown)]) is unknown
    told = after_failure(FULL, [Begun(0, unknown), Begun(1, Appended(7, 2))])
    assert isinstance(told, PartlyAppended)
    assert told.appended == (AppendedPart(1, 7, 2),)
    assert told.cause == str(unknown)


def test_the_first_is_told_if_none_of_them_changed_anything() -> None:
    assert after_failure(FULL, []) is FULL
    assert after_failure(FULL, [Begun(0, NoSpace("full"))]) is FULL
    assert after_failure(FAILED, [Begun(0, FULL)]) is FAILED


def test_of_two_that_are_not_known_the_first_is_told() -> None:
    other = SyncFailed("fdatasync", "/topics/orders/1/0.log")
    assert after_failure(FULL, [Begun(0, FAILED), Begun(1, other)]) is FAILED


class TimedOut(NamedTuple):
    """A barrier whose wait times out; with an outcome, the batch completes right after that."""

    outcome: Appended | LakebedError | None

    def wait_for(self, batch: Batch[Any, Any], timeout: float | None) -> bool:
        if self.outcome is not None:
            batch.results = [self.outcome]
            batch.is_done = True
        return False

    def when_done(self, batch: Batch[Any, Any], callback: Callable[[], None]) -> None: ...


def timed_out(outcome: Appended | LakebedError | None) -> AppendFuture:
    batch: Batch[Any, Appended] = Batch(done=World(0).runner.event(), created_ns=0)
    return AppendFuture(Ticket(TimedOut(outcome), batch, 0), partition=0)


def test_an_append_that_completes_as_the_wait_times_out_has_its_own_outcome() -> None:
    assert timed_out(Appended(7, 2)).exception(0.1) is None
    assert timed_out(FAILED).exception(0.1) is FAILED
    with pytest.raises(OutcomeUnknown):
        timed_out(None).exception(0.1)
