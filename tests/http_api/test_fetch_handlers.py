"""Fetching through the API: columns, lines and raw records, limits, and waiting for more."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebed.api import media, topics
from lakebed.api.topics import NewTopic, Produce
from lakebed.base.damage_ledger import TOPICS, Loss
from lakebed.base.errors import Closed, Corrupt, LakebedError
from lakebed.http_api.message_lines import line_of, read_lines
from lakebed.keratin.errors import OffsetOutOfRange
from lakebed.keratin.format import RecordFlags
from lakebed.keratin.headers import Header
from lakebed.keratin.message import Message
from tests.http_api.live_api import LiveApi, open_api
from tests.http_api.waiters import begin, fresh_topic, poll_count, received, sent, told, wait_until
from tests.store.queues import SMALL, numbered

ORDERS = {"topic": "orders"}
FIRST = {"topic": "orders", "partition": 0}
PATH = "/v1/topics/orders/partitions/0"


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveApi]:
    root = tmp_path_factory.mktemp("api")
    with open_api(root, topic_config=SMALL) as live_api:
        yield live_api


@pytest.fixture
def live_api(live: LiveApi) -> LiveApi:
    fresh_topic(live, "orders")
    return live


def produce(live_api: LiveApi, *values: bytes | None, **fields: Any) -> None:
    live_api.call(topics.PRODUCE, ORDERS, body=Produce(list(values), **fields))


def test_messages_before_lost_ones_are_fetched_and_then_the_loss_is_an_error(
    live_api: LiveApi,
) -> None:
    produce(live_api, *numbered(5))
    loss = Loss(
        engine=TOPICS, name="orders", partition=0, problem="", first_offset=3, next_offset=4
    )
    live_api.store.damage.record(loss)
    page = live_api.call(topics.FETCH, FIRST, {"offset": 0})
    assert (page.offsets, page.next_offset) == ([0, 1, 2], 3)
    with pytest.raises(Corrupt, match="lakebed damage acknowledge"):
        live_api.call(topics.FETCH, FIRST, {"offset": page.next_offset})


@pytest.mark.parametrize("accept", [media.JSON, media.MSGPACK])
def test_messages_are_fetched_page_by_page(live_api: LiveApi, accept: str) -> None:
    values = numbered(25)
    produce(live_api, *values)
    offset, found = 0, []
    while offset < 25:
        page = live_api.call(
            topics.FETCH, FIRST, {"offset": offset, "max_messages": 10}, accept=accept
        )
        assert page.offsets == list(range(offset, min(offset + 10, 25)))
        assert (page.partition, page.start_offset, page.high_watermark) == (0, 0, 25)
        assert page.next_offset == page.offsets[-1] + 1
        found += page.values
        offset = page.next_offset
    assert found == values
    end = live_api.call(topics.FETCH, FIRST, {"offset": 25}, accept=accept)
    assert (end.offsets, end.values, end.next_offset) == ([], [], 25)


def test_a_page_has_no_more_bytes_than_asked_for_but_always_one_message(live_api: LiveApi) -> None:
    produce(live_api, b"x" * 100, b"y" * 100, b"z" * 5000, b"", headers=[[], [], [], [("h", b"1")]])
    for max_bytes, counts in (
        (250, [2, 1, 1]),
        (100, [1, 1, 1, 1]),
        (1, [1, 1, 1, 1]),
        (9999, [4]),
    ):
        offset = 0
        for count in counts:
            page = live_api.call(topics.FETCH, FIRST, {"offset": offset, "max_bytes": max_bytes})
            assert len(page.offsets) == count, (max_bytes, offset)
            offset = page.next_offset
        assert offset == 4


def test_headers_count_as_bytes_of_a_page(live_api: LiveApi) -> None:
    produce(live_api, *[b""] * 10, headers=[[("name", b"x" * 1000)] for _ in range(10)])
    assert len(live_api.call(topics.FETCH, FIRST, {"max_bytes": 3100}).offsets) == 3


def test_a_deleted_key_is_told_as_such(live_api: LiveApi) -> None:
    produce(live_api, None, keys=[b"gone"])
    page = live_api.call(topics.FETCH, FIRST)
    assert (page.keys, page.values) == ([b"gone"], [None])
    assert page.flags == [int(RecordFlags.TOMBSTONE)]


def test_lines_have_what_people_read(live_api: LiveApi) -> None:
    produce(
        live_api,
        b"text",
        b"\xff",
        None,
        keys=[b"k", b"\xfe", b"k"],
        timestamps_ms=[1, 2, 3],
        headers=[[("a", b"1")], [("b", b"\xff"), ("n", None)], [("c", b"1"), ("c", b"2")]],
    )
    answer = live_api.ask("GET", f"{PATH}/messages?max_messages=5", b"", {"Accept": media.LINES})
    assert answer.headers["content-type"] == media.LINES
    assert answer.headers["lakebed-next-offset"] == "3"
    assert answer.headers["lakebed-start-offset"] == "0"
    assert answer.headers["lakebed-high-watermark"] == "3"
    assert answer.body.splitlines() == [
        b'{"partition":0,"offset":0,"timestamp_ms":1,"key":"k","value":"text","headers":{"a":"1"}}',
        (
            b'{"partition":0,"offset":1,"timestamp_ms":2,"key_base64":"/g==",'
            b'"value_base64":"/w==","headers":{"n":null},"headers_base64":{"b":"/w=="}}'
        ),
        (
            b'{"partition":0,"offset":2,"timestamp_ms":3,"key":"k","value":null,'
            b'"headers":[["c","1"],["c","2"]]}'
        ),
    ]


headers = st.lists(st.tuples(st.text(max_size=5), st.none() | st.binary(max_size=5)), max_size=4)


@given(
    key=st.none() | st.binary(max_size=9),
    value=st.none() | st.binary(max_size=9) | st.text(max_size=9).map(str.encode),
    headers=headers,
)
def test_a_line_that_was_given_is_taken_back(
    key: bytes | None, value: bytes | None, headers: list[Header]
) -> None:
    if key is None and value is None:
        value = b""
    line = line_of(0, Message(3, 77, key, value, tuple(headers)))
    mine = line.replace(b'"partition":0,"offset":3,', b"", 1)
    found = read_lines(mine, count_max=1, message_bytes_max=100)
    assert (found.keys, found.values, found.timestamps_ms) == ([key], [value], [77])
    assert sorted(found.headers[0], key=repr) == sorted(headers, key=repr)


def test_raw_records_are_the_bytes_of_the_log(live_api: LiveApi) -> None:
    produce(live_api, *numbered(10))
    partition = live_api.store.topic("orders").partition(0)
    expected = partition.fetch(0, max_bytes=1 << 20)
    answer = live_api.ask("GET", f"{PATH}/records?offset=4")
    assert answer.headers["content-type"] == media.BYTES
    assert answer.body == bytes(partition.fetch(4, max_bytes=1 << 20).data)
    told_ = {name: answer.headers[f"lakebed-{name}"] for name in
             ("base-offset", "next-offset", "start-offset", "high-watermark")}  # fmt: skip
    assert told_ == {"base-offset": "4", "next-offset": "10", "start-offset": "0",
                     "high-watermark": "10"}  # fmt: skip
    one = live_api.call(topics.FETCH_RAW, FIRST, {"offset": 0, "max_bytes": 1})
    assert one == bytes(expected.data[: len(one)])
    assert 0 < len(one) < len(expected.data), "one record, however small the limit"
    end = live_api.ask("GET", f"{PATH}/records?offset=10")
    assert (end.body, end.headers["lakebed-next-offset"]) == (b"", "10")


@pytest.mark.parametrize("operation", [topics.FETCH, topics.FETCH_RAW])
def test_offsets_that_are_not_there(live_api: LiveApi, operation: Any) -> None:
    produce(live_api, *numbered(3))
    with pytest.raises(OffsetOutOfRange) as raised:
        live_api.call(operation, FIRST, {"offset": 4, "wait_ms": 60_000})
    assert (raised.value.start_offset, raised.value.high_watermark) == (0, 3)
    with pytest.raises(OffsetOutOfRange):
        live_api.call(operation, FIRST, {"offset": (1 << 63) - 1})
    live_api.store.topic("orders").partition(0).truncate_before(2)
    with pytest.raises(OffsetOutOfRange):
        live_api.call(operation, FIRST, {"offset": 1})
    assert live_api.ask("GET", f"{PATH}/{_rest(operation)}?offset=1").status == 416


@pytest.mark.parametrize("operation", [topics.FETCH, topics.FETCH_RAW])
@pytest.mark.parametrize(
    "query",
    ["offset=-1", "offset=x", "offset=1&offset=2", "max_bytes=0", f"max_bytes={1 << 40}",
     "wait_ms=-1", "wait_ms=60001", "colour=red", "offset", "offset=%ff"],
)  # fmt: skip
def test_queries_that_are_wrong(live_api: LiveApi, operation: Any, query: str) -> None:
    answer = live_api.ask("GET", f"{PATH}/{_rest(operation)}?{query}")
    assert (answer.status, answer.json["code"]) == (400, "refused")


def test_counts_of_messages_have_limits(live_api: LiveApi) -> None:
    for count in ("0", "-1", "100001", "1.5"):
        assert live_api.ask("GET", f"{PATH}/messages?max_messages={count}").status == 400


def _rest(operation: Any) -> str:
    return str(operation.path).rpartition("/")[2]


# Waiting.


def test_a_fetch_waits_for_a_message(live_api: LiveApi) -> None:
    produce(live_api, b"first")
    waiting = begin(live_api, topics.FETCH, FIRST, {"offset": 1, "wait_ms": 60_000})
    raw = begin(live_api, topics.FETCH_RAW, FIRST, {"offset": 1, "wait_ms": 60_000})
    wait_until(live_api, lambda: poll_count(live_api, "orders") == 2)
    assert not waiting.done()
    produce(live_api, b"second")
    assert told(waiting).values == [b"second"]
    assert b"second" in told(raw)
    assert poll_count(live_api, "orders") == 0, "nobody listens any more"


def test_a_fetch_that_waits_is_woken_by_whoever_embeds_the_store(live_api: LiveApi) -> None:
    waiting = begin(live_api, topics.FETCH, FIRST, {"wait_ms": 60_000})
    wait_until(live_api, lambda: poll_count(live_api, "orders") == 1)
    live_api.store.topic("orders").append_batch([b"embedded"]).result()
    assert told(waiting).values == [b"embedded"]


def test_a_fetch_that_waits_in_vain_ends_with_nothing(live_api: LiveApi) -> None:
    page = live_api.call(topics.FETCH, FIRST, {"wait_ms": 20})
    assert (page.values, page.next_offset) == ([], 0)
    assert poll_count(live_api, "orders") == 0


def test_a_fetch_does_not_wait_if_there_is_something(live_api: LiveApi) -> None:
    produce(live_api, b"first")
    assert live_api.call(topics.FETCH, FIRST, {"wait_ms": 60_000}).values == [b"first"]


def test_a_fetch_that_waits_for_a_topic_that_is_deleted_is_told(live_api: LiveApi) -> None:
    waiting = begin(live_api, topics.FETCH, FIRST, {"wait_ms": 60_000})
    wait_until(live_api, lambda: poll_count(live_api, "orders") == 1)
    live_api.call(topics.DELETE_TOPIC, ORDERS)
    with pytest.raises(Closed):
        told(waiting)


def test_a_client_that_is_gone_is_not_waited_for(live_api: LiveApi) -> None:
    plain = sent(live_api, topics.FETCH, FIRST, {"wait_ms": 60_000})
    wait_until(live_api, lambda: poll_count(live_api, "orders") == 1)
    plain.close()
    wait_until(live_api, lambda: poll_count(live_api, "orders") == 0)


def test_an_api_that_drains_answers_waiting_requests(tmp_path: Path) -> None:
    with open_api(tmp_path, topic_config=SMALL) as live_api:
        live_api.call(topics.CREATE_TOPIC, body=NewTopic("orders"))
        plain = sent(live_api, topics.FETCH, FIRST, {"wait_ms": 60_000})
        wait_until(live_api, lambda: poll_count(live_api, "orders") == 1)
        assert live_api.in_loop(live_api.api.drain(60)), "all ended by themselves"
        status, body = received(plain)
    assert status == 200
    assert media.decode(body, topics.Messages, media.MSGPACK).values == []


def test_many_who_wait_take_no_thread_each(live_api: LiveApi) -> None:
    produce(live_api, b"first")
    live_api.call(topics.FETCH, FIRST)
    before = threading.active_count()
    waiting = [
        sent(live_api, topics.FETCH, FIRST, {"offset": 1, "wait_ms": 60_000}) for _ in range(200)
    ]
    wait_until(live_api, lambda: poll_count(live_api, "orders") == 200)
    assert threading.active_count() <= before + 2, "those who answer other calls"
    produce(live_api, b"second")
    for plain in waiting:
        status, body = received(plain)
        assert status == 200
        assert media.decode(body, topics.Messages, media.MSGPACK).values == [b"second"]


def test_a_store_that_is_closed_says_so(tmp_path: Path) -> None:
    with open_api(tmp_path, topic_config=SMALL) as live_api:
        live_api.call(topics.CREATE_TOPIC, body=NewTopic("orders"))
        live_api.store.close()
        for operation in (topics.FETCH, topics.FETCH_RAW):
            with pytest.raises(LakebedError) as raised:
                live_api.call(operation, FIRST)
            assert isinstance(raised.value, Closed)
        assert live_api.ask("GET", f"{PATH}/messages").status == 503
