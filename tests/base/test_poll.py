"""Looking for what another process does."""

from __future__ import annotations

import pytest

from lakebed.base.poll import POLL_NS_MAX, Poll
from lakebed.base.simulation.world import World


def test_a_subscriber_that_raises_stops_no_other(caplog: pytest.LogCaptureFixture) -> None:
    world = World(1)
    ends = iter(range(1000))
    poll = Poll("look", runner=world.runner, look=lambda: next(ends))
    heard = []

    def broken() -> None:
        raise ValueError("the subscriber is broken")

    poll.subscribe(broken)
    poll.subscribe(lambda: heard.append("changed"))
    for _ in range(3):
        world.runner.advance(POLL_NS_MAX)
    assert len(heard) >= 3
    assert "the subscriber is broken" in caplog.text
    poll.close()
