"""Groups with more messages than fit into one journal item, one window of keys, or one look."""

from __future__ import annotations

import pytest

from lakebed.base.simulation.world import World
from lakebed.base.units import KIB
from lakebed.stroma.config import GroupConfig
from tests.store.queues import append, drained, elapse, now_ms, numbered, opened, values


@pytest.fixture
def world() -> World:
    return World(7)


def test_very_many_scheduled_messages_stop_no_lease(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lakebed.stroma.journal.QUEUE_BYTES_MAX", 32 * KIB)
    monkeypatch.setattr("lakebed.stroma.group.UNRECORDED_MAX", 256)
    topic = opened(world).topic("orders")
    for _ in range(4):
        append(topic, *numbered(500), not_before_ms=now_ms(world) + 1000)
    append(topic, b"at once")
    group = topic.group("billing")
    assert values(group.lease(max_messages=10)) == [b"at once"]
    elapse(world, 1000)
    assert len(drained(group)) == 2001, "that one was not acked in time"


def test_a_hot_key_holds_back_no_other_key_and_none_of_its_messages_is_lost(world: World) -> None:
    topic = opened(world).topic("orders")
    append(topic, *numbered(300, "hot"), key=b"hot")
    append(topic, b"cold", key=b"cold")
    config = GroupConfig(lease_ms=1000, per_key_order=True, key_window_max=40)
    group = topic.group("billing", config=config)
    assert values(group.lease(max_messages=10)) == [*numbered(9, "hot"), b"cold"]
    elapse(world, 1000)
    found = values(drained(group))
    assert [value for value in found if value != b"cold"] == numbered(300, "hot")
    assert found.count(b"cold") == 1
