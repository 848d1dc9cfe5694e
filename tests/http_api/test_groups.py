"""Consumer groups through the API: opened, described, moved, deleted; peeks and dead letters."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lakebed.api import groups, media, topics
from lakebed.api.groups import Ack, LeaseRequest, Leases, Nack, OpenGroup, Redrive, Reset, SeekTo
from lakebed.api.topics import NewTopic, Produce, Settings
from lakebed.base.errors import BadConfig, InputError, NotFound
from lakebed.store.leased_message import Held
from lakebed.stroma.config import GroupConfig
from tests.http_api.live_api import LiveApi, open_api
from tests.http_api.waiters import fresh_topic
from tests.store.queues import SMALL, numbered

ORDERS = {"topic": "orders"}
BILLING = {"topic": "orders", "group": "billing"}
PATH = "/v1/topics/orders/groups/billing"
ODD_NAMES = ["a/b", "%2F", "günther ✓", "..", ".", " ", "a\nb", "?x=1#y", "x" * 300]


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveApi]:
    root = tmp_path_factory.mktemp("api")
    config = GroupConfig(lease_ms=600_000)
    with open_api(root, topic_config=SMALL, group_config=config) as live_api:
        yield live_api


@pytest.fixture
def live_api(live: LiveApi) -> LiveApi:
    fresh_topic(live, "orders", partitions=2)
    if "orders.dead-letters" in live.store.topics.names():
        live.store.topics.delete("orders.dead-letters")
    return live


def produce(live_api: LiveApi, partition: int, *values: bytes, **fields: Any) -> None:
    asked = Produce(list(values), partition=partition, **fields)
    live_api.call(topics.PRODUCE, ORDERS, body=asked)


def lease(live_api: LiveApi, **fields: Any) -> Leases:
    return live_api.call(groups.LEASE, BILLING, body=LeaseRequest(**fields))


def held(leases: Leases) -> list[Held]:
    return [
        Held(one.partition, one.epoch, one.incarnation, [(at, at + 1) for at in one.offsets])
        for one in leases.leases
    ]


@pytest.mark.parametrize("accept", [media.JSON, media.MSGPACK])
def test_a_group_is_opened_listed_described_and_deleted(live_api: LiveApi, accept: str) -> None:
    produce(live_api, 1, b"a", b"b")
    opened = live_api.call(groups.OPEN_GROUP, BILLING, body=OpenGroup(), accept=accept)
    assert (opened.topic, opened.group) == ("orders", "billing")
    assert {number: part.lag for number, part in opened.partitions.items()} == {0: 0, 1: 2}
    assert live_api.call(groups.OPEN_GROUP, BILLING, accept=accept) == opened, "again"
    assert live_api.call(groups.DESCRIBE_GROUP, BILLING, accept=accept) == opened
    assert live_api.call(groups.LIST_GROUPS, ORDERS, accept=accept).groups == ["billing"]
    assert live_api.call(groups.LAG, BILLING, accept=accept).partitions == {0: 0, 1: 2}
    live_api.call(groups.DELETE_GROUP, BILLING, accept=accept)
    assert live_api.call(groups.LIST_GROUPS, ORDERS, accept=accept).groups == []


@pytest.mark.parametrize("name", ODD_NAMES)
def test_a_group_may_have_any_name(live_api: LiveApi, name: str) -> None:
    named = {"topic": "orders", "group": name}
    assert live_api.call(groups.OPEN_GROUP, named).group == name
    assert live_api.call(groups.LIST_GROUPS, ORDERS).groups == [name]
    produce(live_api, 0, b"a")
    leased = live_api.call(groups.LEASE, named, body=LeaseRequest())
    live_api.call(groups.ACK, named, body=Ack(held(leased)))
    assert live_api.call(groups.LAG, named).partitions == {0: 0, 1: 0}
    live_api.call(groups.DELETE_GROUP, named)


def test_names_that_no_group_has(live_api: LiveApi) -> None:
    assert live_api.ask("PUT", "/v1/topics/orders/groups/").status == 404
    assert live_api.ask("PUT", "/v1/topics/orders/groups/%ff").status == 400
    assert live_api.ask("PUT", "/v1/topics/orders/groups/" + "x" * 40_000).status == 414


EVERY_CALL: list[tuple[Any, Any]] = [
    (groups.DESCRIBE_GROUP, None),
    (groups.DELETE_GROUP, None),
    (groups.LAG, None),
    (groups.LEASE, LeaseRequest(wait_ms=60_000)),
    (groups.ACK, Ack([Held(0, 1, "", [(0, 1)])])),
    (groups.NACK, Nack([Held(0, 1, "", [(0, 1)])])),
    (groups.EXTEND, groups.Extend([Held(0, 1, "", [(0, 1)])])),
    (groups.PEEK, None),
    (groups.RESET, Reset()),
    (groups.SEEK, SeekTo(to_end=True)),
    (groups.DEAD_LETTERS, None),
    (groups.REDRIVE, Redrive()),
]


@pytest.mark.parametrize(("operation", "body"), EVERY_CALL)
def test_a_group_that_nobody_opened_is_not_found_and_not_made(
    live_api: LiveApi, operation: Any, body: object
) -> None:
    with pytest.raises(NotFound, match="has no group billing"):
        live_api.call(operation, BILLING, body=body)
    assert live_api.call(groups.LIST_GROUPS, ORDERS).groups == []
    with pytest.raises(NotFound, match="there is no topic nowhere"):
        live_api.call(operation, {"topic": "nowhere", "group": "billing"}, body=body)


def test_groups_of_no_topic(live_api: LiveApi) -> None:
    for operation in (groups.LIST_GROUPS, groups.OPEN_GROUP):
        with pytest.raises(NotFound):
            live_api.call(operation, {"topic": "nowhere", "group": "billing"})


def test_a_group_is_there_after_the_store_was_opened_again(tmp_path: Path) -> None:
    with open_api(tmp_path, topic_config=SMALL) as live_api:
        live_api.call(topics.CREATE_TOPIC, body=NewTopic("orders"))
        live_api.call(groups.OPEN_GROUP, BILLING)
        produce(live_api, 0, b"a", b"b")
        live_api.call(groups.ACK, BILLING, body=Ack(held(lease(live_api, max_messages=1))))
    with open_api(tmp_path, topic_config=SMALL) as live_api:
        assert live_api.call(groups.LAG, BILLING).partitions == {0: 1}
        assert lease(live_api).leases[0].values == [b"b"]


def test_settings_count_for_the_first_who_opens_it(live_api: LiveApi) -> None:
    settings: Settings = {"lease_ms": "1h", "in_flight_max": 1}
    live_api.call(groups.OPEN_GROUP, BILLING, body=OpenGroup(settings))
    live_api.call(groups.OPEN_GROUP, BILLING, body=OpenGroup({"in_flight_max": 5}))
    produce(live_api, 0, b"a", b"b")
    leased = lease(live_api).leases
    assert [one.values for one in leased] == [[b"a"]]
    assert leased[0].deadline_ms > leased[0].timestamps_ms[0] + 3_000_000, "an hour"


def test_settings_are_kept_when_the_writer_ends_and_another_begins(tmp_path: Path) -> None:
    with open_api(tmp_path, topic_config=SMALL) as live_api:
        live_api.call(topics.CREATE_TOPIC, body=NewTopic("orders"))
        live_api.call(groups.OPEN_GROUP, BILLING, body=OpenGroup({"in_flight_max": 1}))
        live_api.call(groups.OPEN_GROUP, BILLING)
        produce(live_api, 0, b"a", b"b", b"c")
    with open_api(tmp_path, topic_config=SMALL) as live_api:
        leased = lease(live_api)
        assert leased.leases[0].values == [b"a"], "one at a time"
        live_api.call(groups.NACK, BILLING, body=Nack(held(leased)))
        live_api.call(groups.OPEN_GROUP, BILLING, body=OpenGroup({"in_flight_max": 2}))
        leased = lease(live_api)
        assert leased.leases[0].values == [b"a"], "from the next opening on"
        live_api.call(groups.NACK, BILLING, body=Nack(held(leased)))
    with open_api(tmp_path, topic_config=SMALL) as live_api:
        leased = lease(live_api)
        assert leased.leases[0].values == [b"a", b"b"]
        live_api.call(groups.NACK, BILLING, body=Nack(held(leased)))
        live_api.call(groups.DELETE_GROUP, BILLING)
        live_api.call(groups.OPEN_GROUP, BILLING)
        assert lease(live_api).leases[0].values == [b"a", b"b", b"c"]


def test_a_setting_that_is_named_stays_when_the_stores_changes(tmp_path: Path) -> None:
    """Also one that is as the store's is now; one that is not named is as the store's is then."""
    with open_api(
        tmp_path, topic_config=SMALL, group_config=GroupConfig(in_flight_max=1)
    ) as live_api:
        live_api.call(topics.CREATE_TOPIC, body=NewTopic("orders"))
        live_api.call(groups.OPEN_GROUP, BILLING, body=OpenGroup({"lease_ms": 5000}))
        settings: Settings = {"in_flight_max": 1}
        live_api.call(groups.OPEN_GROUP, BILLING, body=OpenGroup(settings))
        produce(live_api, 0, b"a", b"b", b"c")
    later = GroupConfig(in_flight_max=2, lease_ms=7000)
    with open_api(tmp_path, topic_config=SMALL, group_config=later) as live_api:
        assert [one.values for one in lease(live_api).leases] == [[b"a"]]
        (part,) = live_api.store.topic("orders").group("billing").parts
        assert part._config.lease_ms == 7000, "the first settings were replaced"
        live_api.call(groups.OPEN_GROUP, BILLING, body=OpenGroup({}))
    with open_api(tmp_path, topic_config=SMALL, group_config=later) as live_api:
        live_api.call(groups.RESET, BILLING, body=Reset())
        assert [one.values for one in lease(live_api).leases] == [[b"a", b"b"]]


@pytest.mark.parametrize(
    ("settings", "what"),
    [
        ({"lease_mss": 1}, "did you mean lease_ms"),
        ({"lease_ms": 0}, "lease_ms"),
        ({"lease_ms": "long"}, "lease_ms"),
        ({"per_key_order": 1}, "per_key_order"),
        ({"ack_level": "after_lunch"}, "after_fsync"),
    ],
)
def test_settings_that_are_wrong_are_refused(
    live_api: LiveApi, settings: dict[str, Any], what: str
) -> None:
    with pytest.raises(BadConfig, match=what):
        live_api.call(groups.OPEN_GROUP, BILLING, body=OpenGroup(settings))
    assert live_api.call(groups.LIST_GROUPS, ORDERS).groups == []


def test_a_peek_shows_what_is_leased_next(live_api: LiveApi) -> None:
    live_api.call(groups.OPEN_GROUP, BILLING)
    produce(live_api, 0, *numbered(3, "zero"), keys=[b"a", None, b"c"], timestamps_ms=[1, 2, 3])
    produce(live_api, 1, *numbered(3, "one"))
    for count in (1, 2, 4, 10):
        peeked = live_api.call(groups.PEEK, BILLING, {"max_messages": count})
        again = live_api.call(groups.PEEK, BILLING, {"max_messages": count})
        assert peeked == again, "it changes nothing"
        leased = lease(live_api, max_messages=count)
        found = [
            (one.partition, *message)
            for one in leased.leases
            for message in zip(one.offsets, one.timestamps_ms, one.keys, one.values, one.headers,
                               strict=True)
        ]  # fmt: skip
        assert len(found) == min(count, 6)
        shown = zip(peeked.partitions, peeked.offsets, peeked.timestamps_ms, peeked.keys,
                    peeked.values, peeked.headers, strict=True)  # fmt: skip
        assert list(shown) == found
        empty = live_api.call(groups.PEEK, BILLING, {"max_messages": 10})
        assert len(empty.offsets) == 6 - len(found), "what is held is not shown"
        live_api.call(groups.NACK, BILLING, body=Nack(held(leased)))
    for text in ("0", "-1", "100001", "x"):
        assert live_api.ask("GET", f"{PATH}/peek?max_messages={text}").status == 400


def test_a_peek_has_a_limit_in_bytes(live_api: LiveApi) -> None:
    live_api.call(groups.OPEN_GROUP, BILLING)
    produce(live_api, 0, b"a" * 30, b"b" * 30, b"c" * 30)
    for limit, count in ((1, 1), (59, 1), (60, 2), (1000, 3)):
        peeked = live_api.call(groups.PEEK, BILLING, {"max_bytes": limit})
        assert peeked.offsets == list(range(count))
    assert len(live_api.call(groups.PEEK, BILLING).offsets) == 3
    for text in ("0", "33554433", "x"):
        assert live_api.ask("GET", f"{PATH}/peek?max_bytes={text}").status == 400


def test_a_group_starts_over_or_goes_elsewhere(live_api: LiveApi) -> None:
    live_api.call(groups.OPEN_GROUP, BILLING)
    for partition in (0, 1):
        produce(live_api, partition, *numbered(4), timestamps_ms=[10, 20, 30, 40])
    live_api.call(groups.ACK, BILLING, body=Ack(held(lease(live_api))))
    for body, lags in (
        (SeekTo(partition=0, offset=3), {0: 1, 1: 0}),
        (SeekTo(timestamp_ms=25), {0: 2, 1: 2}),
        (SeekTo(to_end=True), {0: 0, 1: 0}),
    ):
        live_api.call(groups.SEEK, BILLING, body=body)
        assert live_api.call(groups.LAG, BILLING).partitions == lags
    live_api.call(groups.RESET, BILLING, body=Reset(1))
    assert live_api.call(groups.LAG, BILLING).partitions == {0: 0, 1: 4}
    live_api.call(groups.RESET, BILLING)
    assert live_api.call(groups.LAG, BILLING).partitions == {0: 4, 1: 4}


@pytest.mark.parametrize(
    "asked",
    [
        SeekTo(),
        SeekTo(partition=0),
        SeekTo(offset=1),
        SeekTo(partition=0, to_end=True),
        SeekTo(partition=0, timestamp_ms=1),
        SeekTo(timestamp_ms=1, to_end=True),
        SeekTo(partition=0, offset=1, to_end=True),
        SeekTo(partition=7, offset=0),
        SeekTo(partition=-1, offset=0),
        SeekTo(partition=0, offset=5),
    ],
)
def test_a_place_that_cannot_be_gone_to(live_api: LiveApi, asked: SeekTo) -> None:
    live_api.call(groups.OPEN_GROUP, BILLING)
    produce(live_api, 0, *numbered(4))
    with pytest.raises(InputError):
        live_api.call(groups.SEEK, BILLING, body=asked)
    assert live_api.call(groups.LAG, BILLING).partitions == {0: 4, 1: 0}
    with pytest.raises(InputError):
        live_api.call(groups.RESET, BILLING, body=Reset(7))


def test_dead_letters_are_shown_page_by_page_and_sent_back(live_api: LiveApi) -> None:
    live_api.call(groups.OPEN_GROUP, BILLING, body=OpenGroup({"delivery_count_max": 1}))
    produce(live_api, 0, *numbered(3, "zero"), keys=[b"k", None, b"l"])
    produce(live_api, 1, *numbered(2, "one"))
    assert live_api.call(groups.DEAD_LETTERS, BILLING).letters == []
    live_api.call(groups.NACK, BILLING, body=Nack(held(lease(live_api))))
    assert lease(live_api).leases == []
    everything = live_api.call(groups.DEAD_LETTERS, BILLING)
    assert everything.next_partition is None
    origins = [(one.partition, one.offset, one.key, one.value) for one in everything.letters]
    assert sorted(origins, key=repr) == [
        (0, 0, b"k", b"zero 0"),
        (0, 1, None, b"zero 1"),
        (0, 2, b"l", b"zero 2"),
        (1, 0, None, b"one 0"),
        (1, 1, None, b"one 1"),
    ]
    assert {(one.topic, one.group, one.delivery_count) for one in everything.letters} == {
        ("orders", "billing", 1)
    }
    for count in (1, 2, 3):
        found, place = [], {"partition": 0, "offset": 0}
        while True:
            page = live_api.call(groups.DEAD_LETTERS, BILLING, {"max_messages": count, **place})
            assert len(page.letters) <= count
            found += page.letters
            if page.next_partition is None or page.next_offset is None:
                break
            place = {"partition": page.next_partition, "offset": page.next_offset}
        assert found == everything.letters, count
    assert live_api.call(groups.REDRIVE, BILLING, body=Redrive(2)).messages == 2
    assert len(live_api.call(groups.DEAD_LETTERS, BILLING).letters) == 3
    assert live_api.call(groups.REDRIVE, BILLING).messages == 3
    assert live_api.call(groups.DEAD_LETTERS, BILLING).letters == []
    assert sum(len(one.offsets) for one in lease(live_api).leases) == 5, "new messages"
    assert live_api.ask("POST", f"{PATH}/redrive", b'{"max_messages": 0}').status == 400


def test_dead_letters_of_a_page_have_a_limit_in_bytes(
    live_api: LiveApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    live_api.call(groups.OPEN_GROUP, BILLING, body=OpenGroup({"delivery_count_max": 1}))
    produce(live_api, 0, *[b"x" * 1000] * 4)
    live_api.call(groups.NACK, BILLING, body=Nack(held(lease(live_api))))
    lease(live_api)
    monkeypatch.setattr("lakebed.store.group.LETTER_BYTES_MAX", 2500)
    page = live_api.call(groups.DEAD_LETTERS, BILLING)
    assert (len(page.letters), page.next_partition, page.next_offset) == (2, 0, 2)
    monkeypatch.setattr("lakebed.store.group.LETTER_BYTES_MAX", 1)
    assert len(live_api.call(groups.DEAD_LETTERS, BILLING).letters) == 1
