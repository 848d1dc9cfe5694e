"""A store's topics: one of each name, whoever asks; deleted with their groups, closed for all."""

from __future__ import annotations

import subprocess
import sys
import textwrap
import threading
from pathlib import Path

import pytest

from lakebed.base.errors import AlreadyExists, BadConfig, BadName, Closed, InputError, NotFound
from lakebed.base.simulation.disk import Crash
from lakebed.base.simulation.sweep import sweep
from lakebed.base.simulation.world import World
from lakebed.store.group import Group
from lakebed.store.store import Store
from lakebed.store.topics import StoreTopic
from lakebed.stroma.config import GroupConfig
from tests.store.queues import append, numbered, opened, values


def test_the_example(tmp_path: Path) -> None:
    path = tmp_path
    with Store.open(path) as store:
        topic = store.topic("orders", partitions=3)
        base, count = topic.append_batch([b"one", b"two"]).result()
        group = topic.group("billing")
        for message in group.lease(max_messages=100, lease_ms=30_000):
            group.ack(message)
    assert (base, count) == (0, 2)
    with Store.open(path) as store:
        group = store.topic("orders").group("billing")
        assert group.lease() == []
        assert sum(group.lag().values()) == 0


def test_a_topic_and_a_group_are_the_same_each_time(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        topic = store.topic("orders", partitions=3)
        assert store.topic("orders") is store.topic("orders", partitions=3) is topic
        assert store.topics.open("orders") is topic
        assert topic.group("billing") is topic.group("billing")
        assert topic.group("billing") is not topic.group("shipping")
        assert store.topics.names() == ["orders"]
        assert store.topics.group_names("orders") == ["billing", "shipping"]


def test_a_topic_has_one_partition_unless_more_are_asked_for(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        assert len(store.topic("orders").partitions) == 1
        assert len(store.topic("events", partitions=4).partitions) == 4


def test_another_number_of_partitions_is_refused(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        store.topic("orders", partitions=3)
        with pytest.raises(InputError, match="has 3 partitions, not 2"):
            store.topic("orders", partitions=2)
        with pytest.raises(InputError):
            store.topic("others", partitions=0)
        with pytest.raises(BadName):
            store.topic("../orders")
        assert store.topics.names() == ["orders"]


def test_settings_count_for_their_topic_and_wrong_ones_create_nothing(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        topic = store.topics.create("orders", settings={"compact": True})
        assert topic.config.compact
        assert not store.topic("events").config.compact
        with pytest.raises(AlreadyExists):
            store.topics.create("orders")
        with pytest.raises(BadConfig):
            store.topics.create("others", settings={"compactt": True})
        store.topics.configure("events", {"retention_ms": 5000})
    with opened(tmp_path) as store:
        assert store.topic("events").config.retention_ms == 5000
        assert store.topics.names() == ["events", "orders"]


@pytest.mark.parametrize("is_there", [False, True])
@pytest.mark.parametrize("seed", range(8))
def test_all_who_ask_at_once_for_a_topic_and_its_group_get_the_same(
    seed: int, is_there: bool
) -> None:
    world = World(seed)
    if is_there:
        with opened(world) as store:
            store.topic("orders", partitions=2).group("billing")
        world.restart(Crash.KILL)
    store = opened(world)

    def ask() -> tuple[StoreTopic, Group]:
        topic = store.topic("orders", partitions=2)
        return topic, topic.group("billing")

    calls = [world.runner.call(f"caller {number}", ask) for number in range(5)]
    world.runner.run()
    assert {call.result() for call in calls} == {calls[0].result()}
    store.close()


def test_deleting_a_topic_deletes_its_groups_and_nothing_else(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        orders, others = store.topic("orders", partitions=2), store.topic("others")
        append(orders, *numbered(3), partition=0)
        append(others, *numbered(3))
        group, kept = orders.group("billing"), others.group("billing")
        group.ack_all(group.lease())
        kept.ack_all(kept.lease(max_messages=2))
        store.topics.delete("orders")
        assert store.topics.names() == ["others"]
        assert store.topics.group_names("orders") == []
        for call in (group.lease, group.lag, lambda: orders.group("billing")):
            with pytest.raises(Closed):
                call()
        with pytest.raises(Closed):
            append(orders, b"late", partition=0)
        with pytest.raises(NotFound):
            store.topics.delete("orders")
        again = store.topic("orders")
        append(again, *numbered(3))
        assert values(again.group("billing").lease()) == numbered(3), "it starts over"
        with pytest.raises(Closed):
            orders.group("billing")
        assert values(kept.lease()) == numbered(3)[2:]


def test_a_deleted_group_starts_over_and_the_others_stay_open(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        topic = store.topic("orders", partitions=2)
        append(topic, *numbered(4), partition=1)
        billing, shipping = topic.group("billing"), topic.group("shipping")
        billing.ack_all(billing.lease())
        held = shipping.lease(max_messages=1)
        store.topics.delete_group("orders", "billing")
        with pytest.raises(Closed):
            billing.lease()
        shipping.ack_all(held)
        assert values(shipping.lease()) == numbered(4)[1:]
        assert values(topic.group("billing").lease()) == numbered(4)
        with pytest.raises(NotFound):
            store.topics.delete_group("orders", "unknown")


class DeletedAndMadeAgain:
    """A topic is deleted, and another one of its name gets messages: the group has them all."""

    def __init__(self) -> None:
        self.appended: list[bytes] = []
        self.is_deleted = False

    def run(self, world: World) -> None:
        with opened(world) as store:
            topic = store.topic("orders")
            append(topic, *numbered(5, "old"))
            topic.group("billing").ack_all(topic.group("billing").lease())
            store.topics.delete("orders")
            self.is_deleted = True
            append(store.topic("orders"), *numbered(3, "new"))
            self.appended = numbered(3, "new")

    def check(self, world: World) -> None:
        with opened(world) as store:
            names = store.topics.names()
            assert self.is_deleted or not self.appended
            topic = store.topic("orders")
            if self.is_deleted and not self.appended:
                assert not any(b"old" in (m.value or b"") for m in topic.partition(0).scan_from(0))
            if not names:
                append(topic, *numbered(8, "new"))
                self.appended = numbered(8, "new")
            leased = topic.group("billing").lease()
            if self.appended:
                assert values(leased) == self.appended, "an ack of the old topic counted"


@pytest.mark.sweep
def test_a_crash_while_deleting_leaves_no_acks_to_the_next_topic_of_that_name() -> None:
    assert sweep(DeletedAndMadeAgain, seeds=range(2), survivors=[0, 1, 3], cases_max=120) > 100


def test_closing_the_store_wakes_consumers_who_wait(tmp_path: Path) -> None:
    store = opened(tmp_path)
    group = store.topic("orders", partitions=3).group("billing")
    started = [threading.Event() for _ in range(4)]
    ended: list[type[BaseException]] = []

    def consume(number: int) -> None:
        started[number].set()
        try:
            group.lease(wait_s=600)
        except Closed as error:
            ended.append(type(error))

    threads = [threading.Thread(target=consume, args=(n,), daemon=True) for n in range(4)]
    for thread in threads:
        thread.start()
    for event in started:
        event.wait(30)
    store.close()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive(), "somebody waits for ever"
    assert ended == [Closed] * 4


@pytest.mark.parametrize("ending", ["close", "delete"])
@pytest.mark.parametrize("seed", range(12))
def test_consumers_and_producers_are_told_at_any_moment_of_the_end(ending: str, seed: int) -> None:
    world = World(seed)
    store = opened(world, group_config=GroupConfig(delivery_count_max=1, lease_ms=50))
    topic = store.topic("orders", partitions=2)
    group = topic.group("billing")

    def consume() -> None:
        while True:
            for message in group.lease(max_messages=2, wait_s=100):
                group.ack(message)

    def produce() -> None:
        while True:
            append(topic, *numbered(3))

    def end() -> None:
        for _ in range(20 * seed):
            world.runner.pause("not yet")
        if ending == "close":
            store.close()
        else:
            store.topics.delete("orders")

    calls = [world.runner.call("consumer", consume) for _ in range(3)]
    calls.append(world.runner.call("producer", produce))
    ended = world.runner.call("end", end)
    world.runner.run()
    ended.result()
    for call in calls:
        with pytest.raises(Closed):
            call.result()
    store.close()


def test_what_was_open_is_closed_with_the_store(tmp_path: Path) -> None:
    store = opened(tmp_path)
    topic = store.topic("orders")
    topics = store.topics
    append(topic, b"one")
    group = topic.group("billing")
    store.close()
    store.close()
    files = sorted(tmp_path.rglob("*"))
    for call in (
        group.lease,
        lambda: append(topic, b"two"),
        lambda: topic.group("billing"),
        lambda: topic.group("new"),
        lambda: store.topic("orders"),
        lambda: topics.ensure("orders"),
    ):
        with pytest.raises(Closed):
            call()
    assert sorted(tmp_path.rglob("*")) == files, "something was written without the lock"


def test_a_reader_beside_the_writer_sees_topics_and_groups_and_changes_nothing(
    tmp_path: Path,
) -> None:
    with opened(tmp_path) as store:
        topic = store.topic("orders", partitions=2)
        append(topic, *numbered(3), partition=1)
        group = topic.group("billing")
        group.ack(group.lease(max_messages=2)[0])
        before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
        with Store.open(tmp_path, read_only=True) as reading:
            seen = reading.topic("orders")
            assert (reading.topics.names(), seen.groups()) == (["orders"], ["billing"])
            assert [message.value for message in seen.partition(1).scan_from(0)] == numbered(3)
            described = seen.group("billing").describe()[1]
            assert (described.acked_until, described.in_flight) == (1, 1)
        assert {p: p.read_bytes() for p in tmp_path.rglob("*") if p.is_file()} == before


FORKING = """
    import os, pathlib, sys
    from lakebed.base.errors import Closed, Locked
    from lakebed.store.store import Store

    def files():
        found = [path for path in pathlib.Path(sys.argv[1]).rglob("*") if path.is_file()]
        # The parent fills its logs with zeros ahead of need.
        kept = {path: path.read_bytes() for path in found if path.suffix != ".log"}
        return kept, {path: path.stat().st_ino for path in found}

    store = Store.open(sys.argv[1])
    topic = store.topic("orders")
    topic.append_batch([b"one", b"two"]).result()
    group = topic.group("billing")
    leased = group.lease(max_messages=1)
    before = files()
    child = os.fork()
    if not child:
        refused = 0
        for call in (
            lambda: group.ack(leased[0]),
            lambda: group.lease(),
            lambda: group.parts[0].compact(),
            lambda: topic.append_batch([b"three"]).result(),
            lambda: topic.partition(0).truncate_before(1),
            lambda: topic.group("another"),
            lambda: store.topic("another"),
            lambda: store.log("another"),
            lambda: store.topics.delete("orders"),
        ):
            try:
                call()
            except Closed:
                refused += 1
        try:
            Store.open(sys.argv[1])
        except Locked:
            refused += 1
        store.topics.close()
        os._exit(refused)
    _, status = os.waitpid(child, 0)
    assert files() == before, "the child changed something"
    group.ack(leased[0])
    print(os.waitstatus_to_exitcode(status), group.lag()[0])
    print([message.value for message in group.lease()])
    store.close()
"""


@pytest.mark.process
def test_a_forked_child_is_refused_and_its_parent_goes_on(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(FORKING), str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.stdout, done.stderr) == ("10 1\n[b'two']\n", "")
