"""A crash at every I/O step of changing a topic's settings: the old or the new, and no litter."""

from __future__ import annotations

import pytest

from lakebed.base.files.protocol import TEMPORARY_SUFFIX
from lakebed.base.simulation.sweep import sweep
from lakebed.base.simulation.world import World
from lakebed.keratin.paths import TopicPaths
from tests.store.queues import ROOT, append, opened

pytestmark = pytest.mark.sweep

BEFORE, AFTER = 3_600_000, 7_200_000


class Change:
    """A topic with a message, whose settings are changed and which is not opened after that."""

    def __init__(self) -> None:
        self._is_prepared = self._is_changed = False

    def run(self, world: World) -> None:
        store = opened(world)
        append(store.topics.create("orders", settings={"retention_ms": BEFORE}), b"first")
        self._is_prepared = True
        store.topics.configure("orders", {"retention_ms": AFTER})
        self._is_changed = True

    def check(self, world: World) -> None:
        if not self._is_prepared:
            return
        store = opened(world)
        topic = store.topic("orders")
        names = world.disk.names(TopicPaths(ROOT, "orders").folder)
        assert [name for name in names if name.endswith(TEMPORARY_SUFFIX)] == []
        allowed = [AFTER] if self._is_changed else [BEFORE, AFTER]
        assert topic.config.retention_ms in allowed
        assert [message.value for message in topic.partition(0).read()] == [b"first"]
        store.close()


def test_settings_are_changed_as_a_whole_and_opening_a_topic_removes_what_a_crash_left() -> None:
    assert sweep(Change, seeds=[2], survivors=range(4), cases_max=2000) > 10
