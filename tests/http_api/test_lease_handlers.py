"""Leasing through the API: holding messages, settling them, and waiting for the first one."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from lakebed.api import groups, media, topics
from lakebed.api.groups import Ack, Extend, LeaseRequest, Leases, Nack, OpenGroup
from lakebed.api.topics import NewTopic, Produce
from lakebed.base.errors import Closed, InputError
from lakebed.store.leased_message import Held
from lakebed.stroma.config import GroupConfig
from lakebed.stroma.errors import StaleLease
from tests.http_api.live_api import LiveApi, open_api
from tests.http_api.waiters import begin, fresh_topic, lease_count, received, sent, told, wait_until
from tests.store.queues import SMALL, numbered

ORDERS = {"topic": "orders"}
BILLING = {"topic": "orders", "group": "billing"}
PATH = "/v1/topics/orders/groups/billing"
PATIENT = LeaseRequest(wait_ms=60_000)


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveApi]:
    root = tmp_path_factory.mktemp("api")
    config = GroupConfig(lease_ms=600_000)
    with open_api(root, topic_config=SMALL, group_config=config) as live_api:
        yield live_api


@pytest.fixture
def live_api(live: LiveApi) -> LiveApi:
    fresh_topic(live, "orders", partitions=2, group="billing")
    return live


def produce(live_api: LiveApi, partition: int, *values: bytes, **fields: Any) -> None:
    asked = Produce(list(values), partition=partition, **fields)
    live_api.call(topics.PRODUCE, ORDERS, body=asked)


def lease(live_api: LiveApi, **fields: Any) -> Leases:
    return live_api.call(groups.LEASE, BILLING, body=LeaseRequest(**fields))


def held(leases: Leases) -> list[Held]:
    return [
        Held(one.partition, one.epoch, one.incarnation, [(one.offsets[0], one.offsets[-1] + 1)])
        for one in leases.leases
    ]


def values(leases: Leases) -> list[bytes | None]:
    return [value for one in leases.leases for value in one.values]


def lags(live_api: LiveApi) -> dict[int, int]:
    return live_api.call(groups.LAG, BILLING).partitions


@pytest.mark.parametrize("accept", [media.JSON, media.MSGPACK])
def test_messages_are_leased_and_acked(live_api: LiveApi, accept: str) -> None:
    produce(live_api, 0, b"a", b"b", keys=[b"k", None], headers=[[("h", b"v")], []])
    produce(live_api, 1, b"c", timestamps_ms=[7])
    asked = LeaseRequest(max_messages=10, lease_ms=700_000)
    leased = live_api.call(groups.LEASE, BILLING, body=asked, accept=accept)
    first, second = sorted(leased.leases, key=lambda one: one.partition)
    assert (first.partition, first.offsets, first.values) == (0, [0, 1], [b"a", b"b"])
    assert (first.keys, first.headers) == ([b"k", None], [[("h", b"v")], []])
    assert first.deadline_ms >= first.timestamps_ms[0] + 700_000
    assert (second.values, second.timestamps_ms) == ([b"c"], [7])
    assert second.delivery_counts == [1]
    assert lease(live_api).leases == [], "nobody else has them"
    for _ in range(2):
        live_api.call(groups.ACK, BILLING, body=Ack(held(leased)), accept=accept)  # also again
    assert lags(live_api) == {0: 0, 1: 0}


def test_a_lease_as_lines(live_api: LiveApi) -> None:
    produce(live_api, 1, b"text", b"\xff", timestamps_ms=[5, 6], keys=[b"k", None])
    answer = live_api.ask("POST", f"{PATH}/lease", b'{"max_messages": 5}', {"Accept": media.LINES})
    assert answer.headers["content-type"] == media.LINES
    first, second = (msgspec.json.decode(line) for line in answer.body.splitlines())
    deadline_ms = first.pop("deadline_ms")
    assert deadline_ms == second.pop("deadline_ms") > 0
    assert first.pop("incarnation") == second.pop("incarnation") != ""
    assert first == {"partition": 1, "offset": 0, "timestamp_ms": 5, "key": "k", "value": "text",
                     "epoch": 1, "delivery_count": 1}  # fmt: skip
    assert second == {"partition": 1, "offset": 1, "timestamp_ms": 6, "key": None,
                      "value_base64": "/w==", "epoch": 1, "delivery_count": 1}  # fmt: skip
    empty = live_api.ask("POST", f"{PATH}/lease", b"", {"Accept": media.LINES})
    assert (empty.status, empty.body) == (200, b"")


def test_many_messages_are_leased_at_once(live_api: LiveApi) -> None:
    everything = numbered(1000)
    for start in range(0, 1000, 250):
        produce(live_api, 0, *everything[start : start + 250])
    leased = lease(live_api, max_messages=1000)
    assert values(leased) == everything


def test_a_lease_has_a_limit_in_bytes_and_the_rest_comes_with_the_next(live_api: LiveApi) -> None:
    produce(live_api, 0, b"a" * 40, b"b" * 40, b"c" * 400, b"d" * 40)
    found = [lease(live_api, max_bytes=100) for _ in range(4)]
    lengths = [[len(value or b"") for value in values(leased)] for leased in found]
    assert lengths == [[40, 40], [400], [40], []], "one that is too large comes alone"
    counts = [one.delivery_counts for leased in found for one in leased.leases]
    assert counts == [[1, 1], [1], [1]]
    assert LeaseRequest().max_bytes == topics.FETCH_BYTES_MAX, "also if none is said"


def test_messages_given_back_come_again_at_once_or_later(live_api: LiveApi) -> None:
    produce(live_api, 0, b"a", b"b")
    leased = lease(live_api)
    (mine,) = held(leased)
    first, second = ([msgspec.structs.replace(mine, ranges=[(n, n + 1)])] for n in (0, 1))
    live_api.call(groups.NACK, BILLING, body=Nack(first))
    live_api.call(groups.NACK, BILLING, body=Nack(second, delay_ms=600_000))
    again = lease(live_api)
    assert (values(again), again.leases[0].delivery_counts) == ([b"a"], [2])
    state = live_api.call(groups.DESCRIBE_GROUP, BILLING).partitions[0]
    assert (state.in_flight, state.waiting, state.lag) == (1, 1, 2)


def test_a_lease_is_held_for_longer(live_api: LiveApi) -> None:
    produce(live_api, 0, b"a")
    produce(live_api, 1, b"b")
    leased = lease(live_api)
    asked = Extend(held(leased), lease_ms=9_000_000)
    deadlines_ms = live_api.call(groups.EXTEND, BILLING, body=asked).deadlines_ms
    assert len(deadlines_ms) == 2
    assert all(new > one.deadline_ms for new, one in zip(deadlines_ms, leased.leases, strict=True))


def test_who_does_not_hold_a_message_is_refused(live_api: LiveApi) -> None:
    produce(live_api, 0, b"a", b"b")
    leased = lease(live_api)
    epoch, incarnation = leased.leases[0].epoch, leased.leases[0].incarnation
    for wrong in (
        [Held(0, epoch + 1, incarnation, [(0, 1)])],
        [Held(0, epoch, incarnation, [(0, 3)])],
        [Held(0, -7, incarnation, [(0, 1)])],
        [Held(0, epoch, incarnation[::-1], [(0, 1)])],
        [Held(0, epoch, "", [(0, 1)])],
    ):
        for operation, body in ((groups.ACK, Ack(wrong)), (groups.NACK, Nack(wrong)),
                                (groups.EXTEND, Extend(wrong))):  # fmt: skip
            with pytest.raises(StaleLease) as raised:
                live_api.call(operation, BILLING, body=body)
            assert raised.value.ranges
    answer = live_api.ask(
        "POST", f"{PATH}/ack", msgspec.json.encode(Ack([Held(0, 9, "", [(0, 1)])]))
    )
    assert (answer.status, answer.json["code"]) == (409, "stale-lease")
    assert live_api.call(groups.DESCRIBE_GROUP, BILLING).partitions[0].in_flight == 2


@pytest.mark.parametrize(
    "wrong",
    [
        Held(2, 1, "", [(0, 1)]),
        Held(-1, 1, "", [(0, 1)]),
        Held(0, 1, "", [(1, 1)]),
        Held(0, 1, "", [(2, 1)]),
        Held(0, 1, "", []),
    ],
)
def test_what_nobody_can_hold_is_refused_before_anything_is_settled(
    live_api: LiveApi, wrong: Held
) -> None:
    produce(live_api, 0, b"a")
    mine = held(lease(live_api))
    for operation, kind in ((groups.ACK, Ack), (groups.NACK, Nack), (groups.EXTEND, Extend)):
        with pytest.raises(InputError) as raised:
            live_api.call(operation, BILLING, body=kind([*mine, wrong]))
        assert not isinstance(raised.value, StaleLease)
    state = live_api.call(groups.DESCRIBE_GROUP, BILLING).partitions[0]
    assert (state.in_flight, state.lag) == (1, 1)


@pytest.mark.parametrize(
    ("call", "body"),
    [
        ("lease", b'{"max_messages": 0}'),
        ("lease", b'{"max_messages": 100001}'),
        ("lease", b'{"max_bytes": 0}'),
        ("lease", b'{"max_bytes": 33554433}'),
        ("lease", b'{"wait_ms": 60001}'),
        ("lease", b'{"wait_ms": -1}'),
        ("lease", b'{"lease_ms": 0}'),
        ("lease", b'{"lease_ms": 99999999999999}'),
        ("lease", b'{"colour": 1}'),
        ("ack", b"{}"),
        (
            "ack",
            b'{"held": [{"partition": 0, "epoch": 1, "incarnation": "", "ranges": [[-1, 1]]}]}',
        ),
        ("ack", b'{"held": [{"partition": 0, "epoch": 1, "incarnation": "", "ranges": [[1]]}]}'),
        ("nack", b'{"held": [], "delay_ms": -1}'),
        ("extend", b'{"held": [], "lease_ms": 0}'),
    ],
)
def test_calls_of_the_wrong_kind(live_api: LiveApi, call: str, body: bytes) -> None:
    assert live_api.ask("POST", f"{PATH}/{call}", body).status == 400


def test_numbers_beyond_all_measure_are_refused(live_api: LiveApi) -> None:
    produce(live_api, 0, b"a")
    mine = held(lease(live_api))
    with pytest.raises(InputError):
        live_api.call(groups.NACK, BILLING, body=Nack(mine, delay_ms=(1 << 63) - 1))
    for numbers in (f"[[0, {1 << 70}]]", f"[[{1 << 70}, {1 << 71}]]"):
        one = f'{{"partition": 0, "epoch": 1, "incarnation": "", "ranges": {numbers}}}'
        assert live_api.ask("POST", f"{PATH}/ack", f'{{"held": [{one}]}}'.encode()).status == 400
    assert lags(live_api) == {0: 1, 1: 0}


@pytest.mark.parametrize("call", ["ack", "nack", "extend"])
def test_a_holder_that_names_no_incarnation_is_refused(live_api: LiveApi, call: str) -> None:
    produce(live_api, 0, b"a")
    (mine,) = held(lease(live_api))
    without = {"partition": 0, "epoch": mine.epoch, "ranges": mine.ranges}
    answer = live_api.ask("POST", f"{PATH}/{call}", msgspec.json.encode({"held": [without]}))
    assert answer.status == 400
    assert "missing required field `incarnation`" in answer.json["detail"]
    assert lags(live_api) == {0: 1, 1: 0}


# Waiting.


def test_a_lease_waits_for_a_message(live_api: LiveApi) -> None:
    waiting = begin(live_api, groups.LEASE, BILLING, body=PATIENT)
    wait_until(live_api, lambda: lease_count(live_api) == 1)
    produce(live_api, 1, b"a")
    assert values(told(waiting)) == [b"a"]
    assert live_api.api.service.lease_queues._queues == {}, "nobody is left there"


def test_a_lease_that_waits_is_woken_by_a_nack(live_api: LiveApi) -> None:
    produce(live_api, 0, b"a")
    mine = lease(live_api)
    waiting = begin(live_api, groups.LEASE, BILLING, body=PATIENT)
    wait_until(live_api, lambda: lease_count(live_api) == 1)
    live_api.call(groups.NACK, BILLING, body=Nack(held(mine)))
    assert told(waiting).leases[0].delivery_counts == [2]


@pytest.mark.parametrize("reason", ["end of a lease", "end of a delay"])
def test_a_lease_that_waits_is_woken_by_time(live_api: LiveApi, reason: str) -> None:
    produce(live_api, 0, b"a")
    mine = lease(live_api, lease_ms=50)
    if reason == "end of a delay":
        live_api.call(groups.EXTEND, BILLING, body=Extend(held(mine), lease_ms=600_000))
        live_api.call(groups.NACK, BILLING, body=Nack(held(mine), delay_ms=50))
    waiting = begin(live_api, groups.LEASE, BILLING, body=PATIENT)
    assert told(waiting).leases[0].delivery_counts == [2]


def test_a_lease_that_waits_is_woken_by_the_ack_of_its_key(live_api: LiveApi) -> None:
    ordered = {"topic": "orders", "group": "ordered"}
    live_api.call(groups.OPEN_GROUP, ordered, body=OpenGroup({"per_key_order": True}))
    produce(live_api, 0, b"a", b"b", keys=[b"k", b"k"])
    mine = live_api.call(groups.LEASE, ordered, body=LeaseRequest(max_messages=1))
    assert values(mine) == [b"a"]
    waiting = begin(live_api, groups.LEASE, ordered, body=PATIENT)
    wait_until(live_api, lambda: lease_count(live_api) == 1)
    live_api.call(groups.ACK, ordered, body=Ack(held(mine)))
    assert values(told(waiting)) == [b"b"]


def test_a_lease_that_waits_in_vain_ends_with_nothing(live_api: LiveApi) -> None:
    assert lease(live_api, wait_ms=20).leases == []
    assert live_api.api.service.lease_queues._queues == {}


def test_all_who_wait_get_their_share(live_api: LiveApi) -> None:
    one = LeaseRequest(max_messages=1, wait_ms=60_000)
    waiting = [begin(live_api, groups.LEASE, BILLING, body=one) for _ in range(8)]
    wait_until(live_api, lambda: lease_count(live_api) == 8)
    produce(live_api, 0, *numbered(5, "zero"))
    produce(live_api, 1, *numbered(3, "one"))
    found = sorted(values(told(each))[0] or b"" for each in waiting)
    assert found == sorted([*numbered(5, "zero"), *numbered(3, "one")])


def test_many_who_wait_take_no_thread_each(live_api: LiveApi) -> None:
    before = threading.active_count()
    one = LeaseRequest(max_messages=1, wait_ms=60_000)
    waiting = [sent(live_api, groups.LEASE, BILLING, body=one) for _ in range(200)]
    wait_until(live_api, lambda: lease_count(live_api) == 200)
    assert threading.active_count() <= before + live_api.api.service.limits.threads_max
    produce(live_api, 0, *numbered(200))
    found = []
    for plain in waiting:
        status, body = received(plain)
        assert status == 200
        found += values(media.decode(body, Leases, media.MSGPACK))
    assert sorted(map(_some, found)) == sorted(numbered(200))


def _some(value: bytes | None) -> bytes:
    assert value is not None
    return value


def test_one_change_makes_one_of_many_look(live_api: LiveApi) -> None:
    one = LeaseRequest(max_messages=1, wait_ms=60_000)
    waiting = [sent(live_api, groups.LEASE, BILLING, body=one) for _ in range(50)]
    wait_until(live_api, lambda: lease_count(live_api) == 50)
    looks = 0
    service = live_api.api.service
    run = service.run

    async def counted(work: Any) -> Any:
        nonlocal looks
        looks += 1
        return await run(work)

    service.run = counted  # type: ignore[method-assign]
    live_api.store.topic("orders").append_batch([b"a"], partition=0).result()
    wait_until(live_api, lambda: live_api.store.topic("orders").group("billing").lag()[0] == 1)
    wait_until(live_api, lambda: lease_count(live_api) == 49)
    assert looks <= 10, "the one who gets it, the next, and few who came by chance"
    for plain in waiting:
        plain.close()
    wait_until(live_api, lambda: service.lease_queues._queues == {})


# Clients that are gone.


def test_a_client_that_left_while_it_waited_is_handed_nothing(live_api: LiveApi) -> None:
    plain = sent(live_api, groups.LEASE, BILLING, body=PATIENT)
    wait_until(live_api, lambda: lease_count(live_api) == 1)
    plain.close()
    wait_until(live_api, lambda: lease_count(live_api) == 0)
    produce(live_api, 0, b"a")
    leased = lease(live_api)
    assert (values(leased), leased.leases[0].delivery_counts) == ([b"a"], [1])


def test_what_was_leased_while_the_client_left_is_given_back(live_api: LiveApi) -> None:
    produce(live_api, 0, b"a")
    group = live_api.store.topic("orders").group("billing")
    begun, go_on = threading.Event(), threading.Event()
    plain_lease = group.lease

    def slow_lease(**arguments: Any) -> Any:
        begun.set()
        assert go_on.wait(60)
        return plain_lease(**arguments)

    group.lease = slow_lease  # type: ignore[method-assign]
    plain = sent(live_api, groups.LEASE, BILLING, body=PATIENT)
    assert begun.wait(60)
    plain.close()
    service = live_api.api.service
    wait_until(live_api, lambda: all(_is_gone(live_api)))
    group.lease = plain_lease  # type: ignore[method-assign]
    go_on.set()
    wait_until(live_api, lambda: service.budget.requests == 0)
    leased = lease(live_api)
    assert (values(leased), leased.leases[0].delivery_counts) == ([b"a"], [1]), "it is no delivery"


def _is_gone(live_api: LiveApi) -> list[bool]:
    connections = live_api.api.server._connections
    return [one._request.is_gone for one in connections if one._request is not None]


def test_a_client_that_sends_no_more_counts_as_gone(live_api: LiveApi) -> None:
    plain = sent(live_api, groups.LEASE, BILLING, body=PATIENT)
    wait_until(live_api, lambda: lease_count(live_api) == 1)
    plain.shutdown(1)
    status, body = received(plain)
    assert (status, media.decode(body, Leases, media.MSGPACK).leases) == (200, [])


def test_a_group_deleted_under_those_who_wait_tells_all_of_them(live_api: LiveApi) -> None:
    waiting = [begin(live_api, groups.LEASE, BILLING, body=PATIENT) for _ in range(5)]
    wait_until(live_api, lambda: lease_count(live_api) == 5)
    live_api.call(groups.DELETE_GROUP, BILLING)
    for one in waiting:
        with pytest.raises(Closed):
            told(one)


def test_an_api_that_drains_answers_those_who_wait_for_a_lease(tmp_path: Path) -> None:
    with open_api(tmp_path, topic_config=SMALL) as live_api:
        live_api.call(topics.CREATE_TOPIC, body=NewTopic("orders"))
        live_api.call(groups.OPEN_GROUP, BILLING)
        plain = sent(live_api, groups.LEASE, BILLING, body=PATIENT)
        wait_until(live_api, lambda: lease_count(live_api) == 1)
        assert live_api.in_loop(live_api.api.drain(60)), "all ended by themselves"
        status, body = received(plain)
    assert (status, media.decode(body, Leases, media.MSGPACK).leases) == (200, [])
