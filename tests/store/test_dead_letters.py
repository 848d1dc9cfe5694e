"""Messages that were delivered too often: where they go, and how they come back."""

from __future__ import annotations

import errno
from dataclasses import replace

import pytest

from lakebed.base.clock import NS_PER_MS
from lakebed.base.errors import BadName, DiskError, LakebedError, NoSpace
from lakebed.base.simulation.disk import Crash
from lakebed.base.simulation.world import World
from lakebed.base.units import MIB
from lakebed.keratin.config import Ack
from lakebed.keratin.headers import HEADERS_COUNT_MAX
from lakebed.keratin.record_batch import build
from lakebed.store.dead_letters import Origin, dead_letter_topic, origin_of
from lakebed.store.group import Group
from lakebed.store.store import Store
from lakebed.store.topic_dead_letters import dead_letters_of
from lakebed.store.topics import REDRIVE_PREFIX
from lakebed.stroma.config import GroupConfig
from tests.store.queues import ROOT, SMALL, append, elapse, now_ms, numbered, opened, values

TWICE = GroupConfig(lease_ms=1000, delivery_count_max=2)
LETTERS = "orders.dead-letters"


@pytest.fixture
def world() -> World:
    return World(3)


def fail(group: Group, count: int = 2) -> None:
    """Deliver everything that often, and give it back."""
    for _ in range(count):
        group.nack_all(group.lease(max_messages=1000))


def letters(group: Group) -> list[bytes | None]:
    return [letter.message.value for letter in group.dead_letters()]


def test_what_was_delivered_too_often_is_kept_elsewhere_with_its_origin(world: World) -> None:
    store = opened(world, group_config=TWICE)
    topic = store.topic("orders", partitions=3)
    append(topic, b"good", b"bad", partition=2, key=b"key", headers=[[], [("name", None)]])
    group = topic.group("billing")
    group.ack(group.lease(max_messages=1)[0])
    assert group.dead_letters() == []
    fail(group)
    assert group.lease() == []
    assert group.lag() == {0: 0, 1: 0, 2: 0}
    (letter,) = group.dead_letters()
    assert letter.origin == ("orders", 2, 1, "billing", 2, topic.identity.topic_id)
    assert (letter.message.key, letter.message.value) == (b"key", b"bad")
    assert letter.message.headers[0] == ("name", None)
    assert len(store.topic(LETTERS).partitions) == 3
    assert [message.value for message in store.topic(LETTERS).partition(2).scan_from(0)] == [b"bad"]


@pytest.mark.parametrize("way", ["the lease ends", "it is given back", "after a delay"])
def test_each_way_a_delivery_can_fail_counts(world: World, way: str) -> None:
    topic = opened(world, group_config=TWICE).topic("orders")
    append(topic, b"bad")
    group = topic.group("billing")
    for number in (1, 2):
        (held,) = group.lease()
        assert held.delivery_count == number
        if way != "the lease ends":
            group.nack(held, delay_ms=500 if way == "after a delay" else 0)
        elapse(world, 1000)
    assert group.lease() == []
    assert letters(group) == [b"bad"]


def test_whoever_waits_for_messages_buries_what_is_due(world: World) -> None:
    topic = opened(world, group_config=TWICE).topic("orders", partitions=2)
    append(topic, b"bad", partition=0)
    group = topic.group("billing")
    fail(group, 1)
    group.lease()
    waiting = world.runner.call("consumer", lambda: group.lease(wait_s=30))
    world.runner.run()
    assert waiting.result() == []
    assert letters(group) == [b"bad"]


def test_letters_sent_back_are_new_messages_as_they_were(world: World) -> None:
    topic = opened(world, group_config=TWICE).topic("orders", partitions=2)
    append(topic, *numbered(3), partition=1, key=b"key", headers=[[("name", b"value")]] * 3)
    append(topic, None, partition=1, key=b"gone")
    group, other = topic.group("billing"), topic.group("shipping")
    fail(group)
    group.lease()
    assert group.redrive(max_messages=2) == 2
    assert letters(group) == [b"message 2", None]
    assert group.redrive() == 2
    assert (group.redrive(), letters(group)) == (0, [])
    back = group.lease()
    assert values(back) == [*numbered(3), None]
    assert [(m.partition, m.offset, m.delivery_count) for m in back] == [
        (1, offset, 1) for offset in range(4, 8)
    ]
    assert [m.key for m in back] == [b"key", b"key", b"key", b"gone"]
    assert [m.headers for m in back] == [(("name", b"value"),)] * 3 + [()]
    assert len(other.lease()) == 8, "for all groups"


@pytest.mark.parametrize("count", [1, 3])
def test_a_read_that_failed_is_no_delivery(world: World, count: int) -> None:
    topic = opened(world, group_config=TWICE).topic("orders")
    append(topic, *numbered(count))
    group = topic.group("billing")
    assert len(group.peek()) == count, "the group has looked at them"
    for _ in range(5):
        world.disk.faults.fail("pread")
        with pytest.raises(DiskError):
            group.lease()
    assert group.describe()[0].in_flight == 0
    world.restart(Crash.POWER)
    group = opened(world, group_config=TWICE).topic("orders").group("billing")
    assert [one.delivery_count for one in group.lease()] == [1] * count
    assert letters(group) == []


def test_a_read_that_failed_leaves_the_deliveries_there_were(world: World) -> None:
    topic = opened(world, group_config=TWICE).topic("orders")
    append(topic, b"bad")
    group = topic.group("billing")
    fail(group, 1)
    world.disk.faults.fail("pread")
    with pytest.raises(DiskError):
        group.lease()
    (held,) = group.lease()
    assert held.delivery_count == 2
    group.nack(held)
    world.disk.faults.fail("pread")
    with pytest.raises(DiskError):
        group.lease()
    assert group.lease() == []
    assert [letter.origin.delivery_count for letter in group.dead_letters()] == [2]


def test_a_null_value_without_a_key_comes_back_empty(world: World) -> None:
    topic = opened(world, group_config=TWICE).topic("orders")
    topic.partition(0).append_record_batch(build([None], timestamps_ms=1)).result()
    group = topic.group("billing")
    fail(group)
    assert (group.lease(), group.redrive()) == ([], 1)
    assert values(group.lease()) == [b""]


def test_the_letters_of_one_group_are_not_those_of_another(world: World) -> None:
    topic = opened(world, group_config=TWICE).topic("orders", partitions=2)
    append(topic, b"one", b"two", partition=0)
    billing, shipping = topic.group("billing"), topic.group("shipping")
    for group in (billing, shipping):
        fail(group)
        group.lease()
    assert billing.redrive() == 2
    assert (letters(billing), letters(shipping)) == ([], [b"one", b"two"])
    assert shipping.redrive() == 2
    assert topic.partition(0).high_watermark() == 6
    assert (billing.redrive(), shipping.redrive()) == (0, 0)


def test_letters_stay_after_a_restart_and_so_does_what_was_sent_back(world: World) -> None:
    topic = opened(world, group_config=TWICE).topic("orders")
    append(topic, *numbered(4))
    group = topic.group("billing")
    fail(group)
    group.lease()
    group.redrive(max_messages=1)
    world.restart(Crash.POWER)
    group = opened(world, group_config=TWICE).topic("orders").group("billing")
    assert letters(group) == numbered(4)[1:]
    assert values(group.lease()) == numbered(4)[:1]


def test_letters_that_a_slow_disk_sends_back_are_not_sent_twice(world: World) -> None:
    """Sending takes longer than the leases of the store's groups."""
    topic = opened(world, group_config=TWICE).topic("orders")
    append(topic, *numbered(4))
    group = topic.group("billing")
    fail(group)
    assert (group.lease(), letters(group)) == ([], numbered(4))
    world.disk.faults.slow_ns["fdatasync"] = 2000 * NS_PER_MS
    assert (group.redrive(), group.redrive()) == (4, 0)
    world.disk.faults.slow_ns.clear()
    assert (group.lag(), values(group.lease())) == ({0: 4}, numbered(4))


def test_a_letter_sent_back_while_an_earlier_one_is_held_is_no_longer_listed(world: World) -> None:
    """Another call of `redrive` holds the first letter; it is under way, or its process ended."""
    store = opened(world, group_config=TWICE)
    append(store.topic("orders"), *numbered(4))
    group = store.topic("orders").group("billing")
    fail(group)
    group.lease()
    assert letters(group) == numbered(4)
    (held,) = store.topic(LETTERS).group(REDRIVE_PREFIX + "billing").lease(max_messages=1)
    assert group.redrive(max_messages=2) == 2
    left = [numbered(4)[0], numbered(4)[3]]
    assert letters(group) == left
    assert group.redrive() == 1
    assert letters(group) == left[:1]
    assert store.dead_letters("orders", "billing") == group.dead_letters()
    page = group.dead_letter_page(offset=1)
    assert (page.letters, page.next_partition) == ([], None)
    elapse(world, held.deadline_ms - now_ms(world))
    assert (group.redrive(), letters(group)) == (1, [])
    assert store.dead_letters("orders", "billing") == []


def test_no_letter_replaces_another_with_its_key(world: World) -> None:
    compacting = replace(SMALL, compact=True)
    store = opened(world, topic_config=compacting, group_config=TWICE)
    topic = store.topic("orders")
    append(topic, *numbered(3), key=b"key")
    group = topic.group("billing")
    fail(group)
    group.lease()
    store.topic(LETTERS).partition(0).seal()
    elapse(world, 60_000)
    assert letters(group) == numbered(3)


def test_a_message_as_large_as_can_be_has_room_for_its_origin(world: World) -> None:
    store = opened(world, group_config=TWICE)
    topic = store.topic("orders")
    largest = b"x" * SMALL.message_bytes_max
    append(topic, largest)
    group = topic.group("b" * 200)
    fail(group)
    assert (group.lease(), letters(group)) == ([], [largest])
    assert group.redrive() == 1
    assert values(group.lease()) == [largest]


def test_a_letter_larger_than_its_topic_allows_is_kept_whole(world: World) -> None:
    """The limits of a topic may be raised after its dead-letter topic was made, or be the highest
    there are; and the dead-letter topic may be somebody else's."""
    store = opened(world, group_config=TWICE)
    tiny = {"message_bytes_max": 10, "request_bytes_max": 4096, "batch_bytes_max": 4096}
    store.topics.create(LETTERS, settings=tiny)
    topic = store.topic("orders")
    append(topic, b"x" * SMALL.message_bytes_max, b"next")
    group = topic.group("billing")
    fail(group)
    assert group.lease() == []
    assert letters(group) == [b"x" * SMALL.message_bytes_max, b"next"]
    assert group.lag() == {0: 0}


def test_a_letter_larger_than_its_own_topic_allows_by_now_is_sent_back(world: World) -> None:
    store = opened(world, group_config=TWICE)
    append(store.topic("orders"), b"x" * 5000, b"next")
    store.topics.configure("orders", {"message_bytes_max": 10})
    store.close()
    store = opened(world, group_config=TWICE)
    group = store.topic("orders").group("billing")
    fail(group)
    assert (group.lease(), group.redrive()) == ([], 2)
    assert values(group.lease()) == [b"x" * 5000, b"next"]


def test_a_message_with_as_many_headers_as_can_be_becomes_a_letter(world: World) -> None:
    roomy = replace(SMALL, message_bytes_max=256 * 1024)
    topic = opened(world, topic_config=roomy, group_config=TWICE).topic("orders")
    many = [("h", b"")] * HEADERS_COUNT_MAX
    append(topic, b"bad", headers=[many])
    group = topic.group("billing")
    fail(group)
    assert (group.lease(), letters(group)) == ([], [b"bad"])
    assert group.redrive() == 1
    assert [len(one.headers) for one in group.lease()] == [HEADERS_COUNT_MAX]


def test_headers_that_no_letter_can_have_are_left_out_and_that_is_said(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    roomy = replace(SMALL, request_bytes_max=MIB)
    topic = opened(world, topic_config=roomy, group_config=TWICE).topic("orders")
    batch = build([b"bad"], timestamps_ms=1, headers=[[("n" * 70_000, b"value")]])
    topic.partition(0).append_record_batch(batch).result()
    append(topic, b"next")
    group = topic.group("billing")
    fail(group)
    assert (group.lease(), letters(group)) == ([], [b"bad", b"next"])
    assert "dead_letter_headers_dropped" in caplog.text
    headers = dict(group.dead_letters()[0].message.headers)
    assert b"a header name" in (headers["lakebed-dead-letter-dropped-headers"] or b"")
    assert group.redrive() == 2
    assert [one.headers for one in group.lease()] == [(), ()]


def test_a_dead_letter_topic_of_another_size_is_used_as_it_is(world: World) -> None:
    store = opened(world, group_config=TWICE)
    store.topic(LETTERS, partitions=2)
    topic = store.topic("orders", partitions=3)
    for number in range(3):
        append(topic, b"%d" % number, partition=number)
    group = topic.group("billing")
    fail(group)
    assert group.lease() == []
    assert group.redrive() == 3
    assert sorted((m.partition, m.value) for m in group.lease()) == [
        (0, b"0"),
        (1, b"1"),
        (2, b"2"),
    ]


def test_letters_of_older_versions_name_no_topic_id_and_are_sent_back(world: World) -> None:
    """Nor need the topic have as many partitions as it had then."""
    store = opened(world, group_config=TWICE)
    origin = Origin("orders", 2, 7, "billing", 2).headers()
    assert "lakebed-dead-letter-topic-id" not in dict(origin)
    append(store.topic(LETTERS), b"bad", headers=[origin])
    group = store.topic("orders", partitions=2).group("billing")
    assert letters(group) == [b"bad"]
    assert (group.redrive(), values(group.lease())) == (1, [b"bad"])


def with_a_letter(world: World) -> Store:
    """Of the topic `orders` and its group `billing`."""
    store = opened(world, group_config=TWICE)
    topic = store.topic("orders")
    append(topic, b"old")
    fail(topic.group("billing"))
    assert topic.group("billing").lease() == []
    return store


def test_a_topic_is_deleted_with_its_dead_letters(world: World) -> None:
    store = with_a_letter(world)
    assert store.topics.names() == ["orders", LETTERS]
    store.topics.delete("orders")
    assert store.topics.names() == []
    group = store.topic("orders").group("billing")
    assert (group.dead_letters(), group.redrive()) == ([], 0)
    assert store.topics.names() == ["orders"]


def test_damaged_dead_letters_are_deleted_with_their_topic(world: World) -> None:
    store = opened(world, group_config=TWICE)
    topic = store.topic("orders")
    append(topic, b"one", b"two")
    fail(topic.group("billing"))
    assert topic.group("billing").lease() == []
    assert letters(topic.group("billing")) == [b"one", b"two"]
    store.close()
    segments = f"{ROOT}/topics/{LETTERS}/0/segments"
    (name,) = (name for name in world.disk.names(segments) if name.endswith(".log"))
    world.disk.flip_bit(f"{segments}/{name}", offset=100)
    store = opened(world, group_config=TWICE)
    store.topics.delete("orders")
    assert store.topics.names() == []


def test_a_topic_is_deleted_though_its_dead_letters_cannot_be_opened(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    store = with_a_letter(world)
    store.close()
    world.disk.unlink(f"{ROOT}/topics/{LETTERS}/topic.json")
    store = opened(world, group_config=TWICE)
    store.topics.delete("orders")
    assert store.topics.names() == [LETTERS]
    assert "topic orders: its dead letters cannot be deleted" in caplog.text


def test_a_topic_with_other_messages_is_not_deleted_for_its_name(world: World) -> None:
    store = opened(world, group_config=TWICE)
    append(store.topic(LETTERS, partitions=2), b"no letter", partition=1)
    store.topic("orders")
    store.topics.delete("orders")
    assert store.topics.names() == [LETTERS]


def test_a_topic_that_cannot_be_read_is_not_deleted_for_its_name(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    store = opened(world, group_config=TWICE)
    append(store.topic(LETTERS), b"no letter")
    store.topic("orders")
    folder = f"{ROOT}/topics/{LETTERS}/0/segments/"
    paths = [path for path in world.disk.file_paths() if path.startswith(folder)]
    world.disk.faults.unreadable.update(paths)
    store.topics.delete("orders")
    world.disk.faults.unreadable.clear()
    assert "topic orders: its dead letters cannot be deleted" in caplog.text
    assert [message.value for message in store.topic(LETTERS).partition(0).read()] == [b"no letter"]


def test_a_new_topic_does_not_send_back_letters_of_an_old_one(world: World) -> None:
    """As after a power cut between the deletion of a topic and that of its letters."""
    store = with_a_letter(world)
    store.topics._topics.delete("orders")
    store.close()
    store = opened(world, group_config=TWICE)
    topic = store.topic("orders")
    group = topic.group("billing")
    assert (group.dead_letters(), group.redrive(), group.lag()) == ([], 0, {0: 0})
    append(topic, b"new")
    fail(group)
    assert (group.lease(), letters(group)) == ([], [b"new"])
    reading = Store.open(ROOT, read_only=True, disk=world.disk, runner=world.runner)
    found = dead_letters_of(reading, "orders", "billing")
    assert [letter.message.value for letter in found] == [b"new"]
    assert (group.redrive(), values(group.lease())) == (1, [b"new"])


def test_a_topic_whose_name_leaves_no_room_has_no_group_with_a_limit(world: World) -> None:
    store = opened(world)
    topic = store.topic("o" * 245)
    with pytest.raises(BadName, match=r"too long to append '\.dead-letters'"):
        topic.group("billing", config=TWICE)
    append(topic, b"one")
    assert values(topic.group("billing").lease()) == [b"one"]
    with pytest.raises(BadName):
        dead_letter_topic("o" * 245)


def test_a_letter_makes_way_for_the_next_message_of_its_key(world: World) -> None:
    ordered = replace(TWICE, per_key_order=True)
    topic = opened(world, group_config=ordered).topic("orders")
    append(topic, b"bad", b"good", key=b"key")
    group = topic.group("billing")
    for _ in range(2):
        group.nack_all(group.lease(max_messages=1))
    assert values(group.lease()) == [b"good"]
    assert letters(group) == [b"bad"]


def test_a_letter_waits_for_the_messages_of_its_key_that_are_before_it(world: World) -> None:
    ordered = replace(TWICE, per_key_order=True)
    topic = opened(world, group_config=ordered).topic("orders")
    append(topic, b"first", b"bad", b"good", key=b"key")
    group = topic.group("billing")
    group.nack_all(group.lease(max_messages=2))
    first, bad = group.lease(max_messages=2, lease_ms=60_000)
    group.nack(bad)
    assert (group.lease(), letters(group)) == ([], [])
    waiting = world.runner.call("consumer", lambda: group.lease(wait_s=30))
    elapse(world, 10)
    group.ack(first)
    elapse(world, 10)
    assert (values(waiting.result()), letters(group)) == ([b"good"], [b"bad"])


@pytest.mark.parametrize("operation", ["fdatasync", "pwrite", "create", "rename", "fsync"])
@pytest.mark.parametrize("nth", range(1, 8))
def test_a_letter_that_cannot_be_written_stays_a_message(operation: str, nth: int) -> None:
    world = World(nth)
    topic = opened(world, group_config=TWICE).topic("orders")
    append(topic, b"bad")
    group = topic.group("billing")
    fail(group)
    world.disk.faults.fail(operation, nth=nth)
    try:
        assert group.lease() == []
    except LakebedError:
        assert group.lag() == {0: 1} or letters(group) == [b"bad"], "neither here nor there"
    world.restart(Crash.POWER)
    group = opened(world, group_config=TWICE).topic("orders").group("billing")
    elapse(world, 1000)
    assert group.lease() == []
    assert set(letters(group)) == {b"bad"}
    assert group.lag() == {0: 0}


WRITTEN = replace(SMALL, ack="after_write", sync_ms_max=60_000)


def test_a_letter_outlives_a_power_cut_whatever_the_ack_level_is(world: World) -> None:
    topic = opened(world, topic_config=WRITTEN, group_config=TWICE).topic("orders")
    append(topic, b"bad", ack=Ack.AFTER_FSYNC)
    group = topic.group("billing")
    fail(group)
    assert group.lease() == []
    world.restart(Crash.POWER)
    group = opened(world, topic_config=WRITTEN, group_config=TWICE).topic("orders").group("billing")
    assert group.lease() == []
    assert (group.lag(), letters(group)) == ({0: 0}, [b"bad"])


def test_a_letter_sent_back_outlives_a_power_cut_whatever_the_ack_level_is(world: World) -> None:
    topic = opened(world, topic_config=WRITTEN, group_config=TWICE).topic("orders")
    append(topic, b"bad", ack=Ack.AFTER_FSYNC)
    group = topic.group("billing")
    fail(group)
    assert (group.lease(), group.redrive()) == ([], 1)
    world.restart(Crash.POWER)
    group = opened(world, topic_config=WRITTEN, group_config=TWICE).topic("orders").group("billing")
    assert letters(group) == []
    assert values(group.lease()) == [b"bad"]


def test_a_letter_that_cannot_be_written_holds_up_nobody(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    topic = opened(world, group_config=TWICE).topic("orders", partitions=2)
    append(topic, b"bad", partition=0)
    group = topic.group("billing")
    fail(group)
    append(topic, b"behind it", partition=0)
    append(topic, b"beside it", partition=1)
    for nth in range(1, 9):
        world.disk.faults.fail("mkdir", nth=nth)
    assert set(values(group.lease())) == {b"behind it", b"beside it"}
    assert "lease_failed group=billing topic=orders" in caplog.text
    with pytest.raises(LakebedError):
        group.lease()
    assert group.describe()[0].exhausted == 1


def test_letters_are_moved_a_window_at_a_time(world: World) -> None:
    """However many and large they are, they need not fit into memory together."""
    roomy = replace(SMALL, message_bytes_max=MIB, request_bytes_max=4 * MIB)
    topic = opened(world, topic_config=roomy, group_config=TWICE).topic("orders")
    large = [b"%d" % number * 700_000 for number in range(6)]
    for value in large:
        append(topic, value)
    group = topic.group("billing")
    fail(group)
    world.disk.faults.fail("pread", nth=9)
    with pytest.raises(DiskError):
        group.lease()
    moved = letters(group)
    assert large[: len(moved)] == moved != []
    assert group.lag() == {0: 6 - len(moved)}
    assert group.lease() == []
    assert letters(group) == large, "each once"


def test_letters_that_cannot_be_sent_back_stay_letters(world: World) -> None:
    topic = opened(world, group_config=TWICE).topic("orders")
    append(topic, *numbered(3))
    group = topic.group("billing")
    fail(group)
    group.lease()
    assert letters(group) == numbered(3)
    steps = len(world.trace)
    world.disk.faults.fail("pwrite", nth=2, code=errno.ENOSPC)  # the first is that of the lease
    with pytest.raises(NoSpace):
        group.redrive()
    assert any("pwrite" in line and "orders/0" in line for line in world.trace[steps:])
    assert letters(group) == numbered(3)
    assert group.redrive() == 3, "at once, not only when a lease has ended"


def test_letters_that_cannot_be_read_are_an_error_and_not_left_out(world: World) -> None:
    """A list without them looks complete, and its reader takes them for sent back."""
    topic = opened(world, group_config=TWICE).topic("orders")
    append(topic, *numbered(3))
    group = topic.group("billing")
    fail(group)
    group.lease()
    assert letters(group) == numbered(3)
    for list_letters in (group.dead_letters, group.dead_letter_page):
        world.disk.faults.fail("pread")
        with pytest.raises(DiskError):
            list_letters()
    assert letters(group) == numbered(3)
    assert group.redrive() == 3


def test_a_scheduled_message_that_died_is_not_scheduled_again(world: World) -> None:
    topic = opened(world, group_config=TWICE).topic("orders")
    append(topic, b"bad", not_before_ms=now_ms(world) + 5000)
    group = topic.group("billing")
    elapse(world, 5000)
    fail(group)
    assert (group.lease(), group.redrive()) == ([], 1)
    assert values(group.lease()) == [b"bad"]


def test_messages_in_a_dead_letter_topic_that_are_no_letters_are_left_out(world: World) -> None:
    store = opened(world, group_config=TWICE)
    topic = store.topic("orders")
    append(topic, b"bad")
    group = topic.group("billing")
    fail(group)
    group.lease()
    append(store.topic(LETTERS), b"stranger", headers=[[("lakebed-dead-letter-topic", None)]])
    (stranger,) = store.topic(LETTERS).partition(0).scan_from(1)
    assert origin_of(stranger) is None
    assert letters(group) == [b"bad"]
    assert group.redrive() == 1
    assert values(group.lease()) == [b"bad"]
