"""Looking for what another process does."""

from __future__ import annotations

import pytest

from lakebed.base.follower import listen_weakly
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


def test_nothing_is_looked_at_for_a_subscriber_that_was_dropped() -> None:
    world = World(2)
    looks = []
    poll = Poll("look", runner=world.runner, look=lambda: looks.append(1))

    class Subscriber:
        def hear(self) -> None: ...

    class View:
        runner = world.runner
        on_durable = staticmethod(poll.subscribe)

    subscriber = Subscriber()
    ended: list[str] = []
    listen_weakly(View(), subscriber.hear, on_dropped=lambda: ended.append("dropped"))
    world.runner.advance(POLL_NS_MAX)
    assert looks
    assert ended == []
    del subscriber
    world.runner.advance(2 * POLL_NS_MAX)
    assert ended == ["dropped"]
    looks.clear()
    world.runner.advance(10 * POLL_NS_MAX)
    assert looks == []
    poll.close()
