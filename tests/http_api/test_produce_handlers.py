"""Producing through the API: documents, lines and bytes; who may repeat; what is refused."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from lakebed.api import media, topics
from lakebed.api.problems import Refused
from lakebed.api.topics import Appended, Messages, NewTopic, Produce, WireProducer
from lakebed.base.errors import (
    Busy,
    Closed,
    InputError,
    LakebedError,
    NotFound,
    SyncFailed,
    TooLarge,
)
from lakebed.keratin.errors import OutOfOrderSequence, PartlyAppended, ProducerFenced
from lakebed.keratin.message import NOT_BEFORE_HEADER
from lakebed.keratin.partitioner import partition_of
from tests.fakes.failing_disk import FailingDisk
from tests.http_api.live_api import Answer, LiveApi, open_api
from tests.http_api.waiters import begin, fresh_topic, told
from tests.store.queues import SMALL

ORDERS = {"topic": "orders"}
WIDE = {"topic": "wide"}  # of three partitions
PATH = "/v1/topics/orders/messages"


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveApi]:
    root = tmp_path_factory.mktemp("api")
    with open_api(root, topic_config=SMALL) as live_api:
        yield live_api


@pytest.fixture
def live_api(live: LiveApi) -> LiveApi:
    fresh_topic(live, "orders")
    fresh_topic(live, "wide", partitions=3)
    return live


def fetched(live_api: LiveApi, topic: str = "orders", partition: int = 0) -> Messages:
    return live_api.call(topics.FETCH, {"topic": topic, "partition": partition})


def lines(live_api: LiveApi, data: bytes, query: str = "", path: str = PATH) -> Answer:
    return live_api.ask("POST", path + query, data, {"Content-Type": media.LINES})


@pytest.mark.parametrize("accept", [media.JSON, media.MSGPACK])
def test_a_document_is_appended_and_told_where(live_api: LiveApi, accept: str) -> None:
    asked = Produce(
        values=[b"\x00\xff", b"", None],
        keys=[b"a", None, b"c"],
        headers=[[("trace", b"\x01"), ("none", None)], [], []],
        timestamps_ms=[5, 6, 7],
    )
    produced = live_api.call(topics.PRODUCE, ORDERS, body=asked, accept=accept)
    assert produced.appended == [Appended(0, 0, 3)]
    found = fetched(live_api)
    assert (found.values, found.keys) == (asked.values, asked.keys)
    assert (found.headers, found.timestamps_ms) == (asked.headers, asked.timestamps_ms)
    again = live_api.call(topics.PRODUCE, ORDERS, body=Produce([b"x"]), accept=accept)
    assert again.appended == [Appended(0, 3, 1)]


def test_messages_go_to_the_partitions_of_their_keys(live_api: LiveApi) -> None:
    keys = [f"key {number}".encode() for number in range(20)]
    values: list[bytes | None] = [b"of " + key for key in keys]
    produced = live_api.call(topics.PRODUCE, WIDE, body=Produce(values, keys=list(keys)))
    assert [one.partition for one in produced.appended] == [0, 1, 2]
    assert sum(one.count for one in produced.appended) == 20
    for number in range(3):
        expected = [key for key in keys if partition_of(key, 3) == number]
        found = fetched(live_api, "wide", number)
        assert found.keys == expected, "in their order"
        assert found.values == [b"of " + key for key in expected]


def test_messages_without_a_key_go_to_each_partition_in_turn(live_api: LiveApi) -> None:
    chosen = [
        live_api.call(topics.PRODUCE, WIDE, body=Produce([b"a", b"b"])).appended[0].partition
        for _ in range(6)
    ]
    assert sorted(chosen) == [0, 0, 1, 1, 2, 2]
    mixed = Produce([b"a", b"b", b"c"], keys=[None, b"k", None])
    produced = live_api.call(topics.PRODUCE, WIDE, body=mixed)
    counts = {one.partition: one.count for one in produced.appended}
    assert sum(counts.values()) == 3
    assert partition_of(b"k", 3) in counts
    at = live_api.call(topics.PRODUCE, WIDE, body=Produce([b"a"], keys=[b"k"], partition=2))
    assert [one.partition for one in at.appended] == [2], "as it was said"


def test_what_a_producer_sends_again_is_appended_once(live_api: LiveApi) -> None:
    first = Produce([b"a", b"b"], producer=WireProducer(7, 0, 0))
    second = Produce([b"c"], producer=WireProducer(7, 0, 2))
    for asked, base in ((first, 0), (first, 0), (second, 2), (second, 2)):
        produced = live_api.call(topics.PRODUCE, ORDERS, body=asked)
        assert produced.appended == [Appended(0, base, len(asked.values))]
    assert fetched(live_api).values == [b"a", b"b", b"c"]
    with pytest.raises(OutOfOrderSequence):
        live_api.call(topics.PRODUCE, ORDERS, body=Produce([b"x"], producer=WireProducer(7, 0, 9)))
    live_api.call(topics.PRODUCE, ORDERS, body=Produce([b"d"], producer=WireProducer(7, 1, 0)))
    with pytest.raises(ProducerFenced):
        live_api.call(topics.PRODUCE, ORDERS, body=Produce([b"x"], producer=WireProducer(7, 0, 3)))
    for query in ("?producer_id=7&producer_epoch=1&producer_sequence=5", "?producer_id=7"):
        assert lines(live_api, b'{"value": "x"}', query).status == 409
    assert fetched(live_api).values == [b"a", b"b", b"c", b"d"]


def test_a_producer_of_lines_and_bytes_is_recognised_too(live_api: LiveApi) -> None:
    for _ in range(2):
        answer = lines(live_api, b'{"value": "a"}\n{"value": "b"}\n', "?producer_id=9")
        assert answer.json["appended"] == [{"partition": 0, "base_offset": 0, "count": 2}]
        live_api.ask("POST", PATH + "?producer_id=9&producer_sequence=2", b"c",
                 {"Content-Type": media.BYTES})  # fmt: skip
    assert fetched(live_api).values == [b"a", b"b", b"c"]
    for query in ("producer_id=-1", "producer_id=1&producer_epoch=99999", f"producer_id={1 << 63}",
                  "producer_id=1&producer_sequence=-1"):  # fmt: skip
        assert lines(live_api, b'{"value": "a"}', "?" + query).status == 400, query


def test_a_producer_says_which_partition(live_api: LiveApi) -> None:
    with pytest.raises(InputError, match="needs a partition"):
        live_api.call(topics.PRODUCE, WIDE, body=Produce([b"a"], producer=WireProducer(7, 0, 0)))
    asked = Produce([b"a"], keys=[b"k"], partition=1, producer=WireProducer(7, 0, 0))
    assert live_api.call(topics.PRODUCE, WIDE, body=asked).appended == [Appended(1, 0, 1)]


def test_lines_are_messages_as_people_write_them(live_api: LiveApi) -> None:
    data = (
        b'{"value": "text \\u00fc"}\n'
        b'{"key": "k", "value": {"b": [1.50, null],  "a": "x y"}}\n'
        b'{"key": "k", "value": null}\r\n'
        b'{"key_base64": "/w==", "value_base64": "AP8="}\n'
        b'{"value": 12345678901234567890123, "headers": {"h": "v", "n": null}}\n'
        b'{"value": true, "headers": [["h", "1"], ["h", "2"]], "headers_base64": {"b": "/w=="}}\n'
        b'{"value": "", "timestamp_ms": 77}'
    )
    answer = lines(live_api, data)
    assert answer.json == {"appended": [{"partition": 0, "base_offset": 0, "count": 7}]}
    found = fetched(live_api)
    assert found.values == [
        "text ü".encode(),
        b'{"b":[1.50,null],"a":"x y"}',
        None,
        b"\x00\xff",
        b"12345678901234567890123",
        b"true",
        b"",
    ]
    assert found.keys == [None, b"k", b"k", b"\xff", None, None, None]
    assert found.headers[4] == [("h", b"v"), ("n", None)]
    assert found.headers[5] == [("h", b"1"), ("h", b"2"), ("b", b"\xff")]
    assert found.timestamps_ms[6] == 77
    assert found.timestamps_ms[0] > 77, "now"


@pytest.mark.parametrize(
    ("line", "what"),
    [
        (b"", "the line is empty"),
        (b"   ", "the line is empty"),
        (b"plain text", "malformed"),
        (b'"text"', "Expected `object`"),
        (b'{"value": "a", "colour": 1}', "unknown field `colour`"),
        (b"{}", "one of the fields `value` and `value_base64`"),
        (b'{"value": "a", "value_base64": ""}', "one of the fields `value` and `value_base64`"),
        (b'{"key": "a", "key_base64": "", "value": 1}', "give one of them"),
        (b'{"value": null}', "has no key"),
        (b'{"value_base64": "*"}', "base64"),
        (b'{"value": "a", "headers": {"n": 1}}', "headers"),
        (b'{"value": "a", "timestamp_ms": "now"}', "timestamp_ms"),
        (b'{"value": "\xff"}', ""),
        (b'{"value": ["\xff"]}', ""),
        (b'{"value": ' + b"[" * 100_000, ""),
    ],
)
def test_what_is_wrong_with_a_line_is_told_with_its_number(
    live_api: LiveApi, line: bytes, what: str
) -> None:
    answer = lines(live_api, b'{"value": "a"}\n{"value": "b"}\n' + line + b'\n{"value": "d"}\n')
    assert answer.status == 400
    assert answer.json["detail"].startswith("line 3: "), answer.json
    assert what in answer.json["detail"]
    assert fetched(live_api).values == [], "and nothing was appended"


def test_a_message_that_is_too_large_is_told_with_its_line(live_api: LiveApi) -> None:
    large = b"x" * (SMALL.message_bytes_max + 1)
    answer = lines(live_api, b'{"value": "a"}\n{"value": "' + large + b'"}\n')
    assert answer.status == 413
    assert "line 2" in answer.json["detail"]
    assert fetched(live_api).values == []


def test_lines_with_keys_go_to_their_partitions(live_api: LiveApi) -> None:
    data = b"".join(b'{"key": "key %d", "value": %d}\n' % (n, n) for n in range(20))
    answer = lines(live_api, data, path="/v1/topics/wide/messages")
    assert [one["partition"] for one in answer.json["appended"]] == [0, 1, 2]
    answer = lines(live_api, data, "?partition=1&ack=after_write", path="/v1/topics/wide/messages")
    assert [(one["partition"], one["count"]) for one in answer.json["appended"]] == [(1, 20)]


def test_the_bytes_of_one_message(live_api: LiveApi) -> None:
    sent = {
        "Content-Type": "text/plain; charset=x",
        "Lakebed-Header-Trace": "\xff 1",
        "X-Other": "2",
    }
    query = "?key=k%C3%BC&timestamp_ms=9&not_before_ms=12"
    answer = live_api.ask("POST", PATH + query, b"\x00 any \xff", sent)
    assert answer.json == {"appended": [{"partition": 0, "base_offset": 0, "count": 1}]}
    found = fetched(live_api)
    assert (found.values, found.keys) == ([b"\x00 any \xff"], ["kü".encode()])
    assert found.timestamps_ms == [9]
    assert found.headers == [[("Trace", b"\xff 1"), (NOT_BEFORE_HEADER, b"12")]]
    live_api.ask("POST", PATH, b"", {"Content-Type": media.BYTES})
    assert fetched(live_api).values[1] == b"", "an empty one is a message too"


@pytest.mark.parametrize(
    ("asked", "error"),
    [
        (Produce([]), InputError),
        (Produce([b"a"], keys=[]), InputError),
        (Produce([b"a"], keys=[b"a", b"b"]), InputError),
        (Produce([b"a"], headers=[[], []]), InputError),
        (Produce([b"a"], timestamps_ms=[1, 2]), InputError),
        (Produce([b"a"], timestamps_ms=[-1]), InputError),
        (Produce([b"a"], timestamps_ms=[1 << 64]), InputError),
        (Produce([None]), InputError),
        (Produce([b"a"], partition=-1), NotFound),
        (Produce([b"a"], partition=3), NotFound),
        (Produce([b"a"], partition=1 << 70), NotFound),
        (Produce([b"a"], ack="after_lunch"), InputError),
        (Produce([b"a"], ack="after_replicated"), InputError),
        (Produce([b"a"], not_before_ms=1 << 64), InputError),
        (Produce([b"x" * (SMALL.message_bytes_max + 1)]), TooLarge),
        (Produce([b"x" * 60_000] * 5, partition=0), TooLarge),
        (Produce([b"a", b"b"], keys=[b"k", b"x" * 70_000]), TooLarge),
        (Produce([b"a"], headers=[[("n" * 70_000, b"")]]), TooLarge),
    ],
)
@pytest.mark.parametrize("accept", [media.JSON, media.MSGPACK])
def test_what_cannot_be_appended_is_refused_and_nothing_is(
    live_api: LiveApi, asked: Produce, error: type[LakebedError], accept: str
) -> None:
    if accept == media.MSGPACK and any(one >= 1 << 64 for one in _numbers(asked)):
        pytest.skip("MessagePack has no such numbers")
    with pytest.raises(error):
        live_api.call(topics.PRODUCE, WIDE, body=asked, accept=accept)
    assert [fetched(live_api, "wide", number).values for number in range(3)] == [[], [], []]


def _numbers(asked: Produce) -> list[int]:
    return [asked.partition or 0, asked.not_before_ms, *(asked.timestamps_ms or ())]


@pytest.mark.parametrize(
    "body",
    [
        {"values": ["YQ=="], "colour": 1},
        {"values": [1]},
        {"values": ["*"]},
        {"values": "YQ=="},
        {"keys": ["YQ=="]},
        {"values": ["YQ=="], "producer": {"id": -1, "epoch": 0, "sequence": 0}},
        {"values": ["YQ=="], "producer": {"id": 1, "epoch": 1 << 15, "sequence": 0}},
        {"values": ["YQ=="], "producer": {"id": 1}},
        {"values": ["YQ=="], "timeout_ms": -1},
        {"values": ["YQ=="], "headers": [[["n", "YQ==", "x"]]]},
        {"values": ["YQ=="], "partition": 1.5},
    ],
)
def test_a_document_of_the_wrong_kind(live_api: LiveApi, body: Any) -> None:
    answer = live_api.ask("POST", PATH, msgspec.json.encode(body))
    assert (answer.status, answer.json["code"]) == (400, "bad-document")
    assert fetched(live_api).values == []


def test_bodies_and_queries_that_do_not_go_together(live_api: LiveApi) -> None:
    with pytest.raises(Refused, match="cannot be combined with a JSON or MessagePack body"):
        live_api.call(topics.PRODUCE, ORDERS, {"partition": 0}, Produce([b"a"]))
    assert lines(live_api, b'{"value": 1}', "?key=k").status == 400
    assert lines(live_api, b'{"value": 1}', "?colour=red").status == 400
    assert lines(live_api, b"").status == 400
    assert live_api.ask("POST", PATH, b"", {"Content-Type": media.JSON}).status == 400
    assert live_api.ask("POST", PATH, b"x", {"Content-Type": "image/png"}).status == 415
    assert fetched(live_api).values == []


def test_more_messages_than_are_taken_at_once(
    live_api: LiveApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lakebed.http_api.produce_handlers.MESSAGES_MAX", 3)
    assert lines(live_api, b'{"value": 1}\n' * 3).status == 200
    answer = lines(live_api, b'{"value": 1}\n' * 4)
    assert (answer.status, answer.json["facts"]) == (413, {"size": 4, "limit": 3})


def test_a_topic_that_is_not_there(live_api: LiveApi) -> None:
    with pytest.raises(NotFound, match="no topic nowhere"):
        live_api.call(topics.PRODUCE, {"topic": "nowhere"}, body=Produce([b"a"]))
    assert live_api.ask("POST", "/v1/topics//messages", b"{}").status == 404
    assert live_api.ask("POST", "/v1/topics/a%2Fb/messages", b"{}").status == 400


def test_a_large_body_is_appended_as_a_small_one(live_api: LiveApi) -> None:
    values: list[bytes | None] = [bytes([number]) * 1000 for number in range(200)]
    produced = live_api.call(topics.PRODUCE, ORDERS, body=Produce(values))
    assert produced.appended == [Appended(0, 0, 200)]
    assert fetched(live_api).values == values


def test_a_full_queue_is_told_at_once_or_waited_for(tmp_path: Path) -> None:
    settings = {"queue_count_max": 1, "linger_ms_max": 10_000}
    with open_api(tmp_path, topic_config=SMALL) as live_api:
        live_api.call(topics.CREATE_TOPIC, body=NewTopic("orders", 1, dict(settings)))
        partition = live_api.store.topic("orders").partition(0)
        held = begin(live_api, topics.PRODUCE, ORDERS, body=Produce([b"first"]))
        told(held)  # the queue lingers from now on
        with partition._barrier._mutex:
            partition._barrier._pending_count += 1  # as if one more were on its way to the disk
        with pytest.raises(Busy):
            live_api.call(topics.PRODUCE, ORDERS, body=Produce([b"second"]))
        answer = live_api.ask("POST", PATH, b'{"values": ["YQ=="], "timeout_ms": 5}')
        assert (answer.status, answer.headers["retry-after"]) == (429, "1")
        waiting = begin(
            live_api, topics.PRODUCE, ORDERS, body=Produce([b"third"], timeout_ms=60_000)
        )
        with pytest.raises(Busy):  # it tried at least once by then, for it came before
            live_api.call(topics.PRODUCE, ORDERS, body=Produce([b"fourth"], timeout_ms=20))
        assert not waiting.done()
        with partition._barrier._mutex:
            partition._barrier._pending_count -= 1
        assert told(waiting).appended == [Appended(0, 1, 1)]


@contextlib.contextmanager
def no_room_in(live_api: LiveApi, topic: str, *numbers: int) -> Iterator[None]:
    """As if queues were full of what is on its way to the disk."""
    barriers = [live_api.store.topic(topic).partition(number)._barrier for number in numbers]
    for barrier in barriers:
        with barrier._mutex:
            barrier._pending_count += SMALL.queue_count_max
    yield
    for barrier in barriers:
        with barrier._mutex:
            barrier._pending_count -= SMALL.queue_count_max


def test_what_is_appended_in_part_says_what_is_there(live_api: LiveApi) -> None:
    keys: list[bytes | None] = [b"%d" % number for number in range(20)]
    asked = Produce([b"v"] * 20, keys=keys)
    counts = Counter(partition_of(key, 3) for key in keys if key is not None)
    with no_room_in(live_api, "wide", 2):
        answer = live_api.ask("POST", "/v1/topics/wide/messages", msgspec.json.encode(asked))
    assert (answer.status, answer.json["code"]) == (500, "partly-appended")
    assert "retry-after" not in answer.headers, "it would be there twice"
    assert answer.json["facts"]["appended"] == [
        {"partition": number, "base_offset": 0, "message_count": counts[number]}
        for number in (0, 1)
    ]
    assert answer.json["facts"]["cause"] == "wide-2: the queue of writes is full; retry later"
    assert isinstance(answer.problem, PartlyAppended)
    assert [len(fetched(live_api, "wide", number).values) for number in range(3)] == [
        counts[0],
        counts[1],
        0,
    ]


KEYS_OF: dict[int, list[bytes | None]] = {
    number: [key for key in map(b"%d".__mod__, range(20)) if partition_of(key, 3) == number]
    for number in range(3)
}


def test_a_sync_that_failed_is_not_hidden_behind_a_full_queue(tmp_path: Path) -> None:
    """`Busy` would say that nothing was appended, and nobody knows that."""
    disk = FailingDisk()
    with open_api(tmp_path, topic_config=SMALL, disk=disk) as live_api:
        for topic, numbers in (("wide", (0, 2)), ("other", (0, 1, 2))):
            fresh_topic(live_api, topic, partitions=3)
            keys = [key for number in numbers for key in KEYS_OF[number]]
            asked = Produce([b"v"] * len(keys), keys=keys)
            disk.failing = f"/topics/{topic}/0/"
            with no_room_in(live_api, topic, 2):
                answer = live_api.ask(
                    "POST", f"/v1/topics/{topic}/messages", msgspec.json.encode(asked)
                )
            disk.failing = ""
            assert (answer.status, "retry-after" in answer.headers) == (500, False)
            if topic == "wide":  # nothing is there for certain
                assert isinstance(answer.problem, SyncFailed)
                continue
            assert isinstance(answer.problem, PartlyAppended)
            assert [one.partition for one in answer.problem.appended] == [1]
            assert "fdatasync" in answer.problem.cause
            assert "after a disk error, check first" in answer.json["advice"]


def test_what_is_not_appended_at_all_may_be_sent_again(live_api: LiveApi) -> None:
    keys: list[bytes | None] = [b"%d" % number for number in range(20)]
    with no_room_in(live_api, "wide", 0, 1, 2), pytest.raises(Busy):
        live_api.call(topics.PRODUCE, WIDE, body=Produce([b"v"] * 20, keys=keys))
    numbered = Produce([b"v"], partition=1, producer=WireProducer(7, 0, 0))
    with no_room_in(live_api, "wide", 1), pytest.raises(Busy):
        live_api.call(topics.PRODUCE, WIDE, body=numbered)
    assert live_api.call(topics.PRODUCE, WIDE, body=numbered).appended == [Appended(1, 0, 1)]
    assert [fetched(live_api, "wide", number).values for number in range(3)] == [[], [b"v"], []]


def test_produces_at_once_are_all_there(live_api: LiveApi) -> None:
    running = [
        begin(live_api, topics.PRODUCE, ORDERS, body=Produce([b"%d" % number]))
        for number in range(20)
    ]
    bases = sorted(told(one).appended[0].base_offset for one in running)
    assert bases == list(range(20))
    assert sorted(value or b"" for value in fetched(live_api).values) == sorted(
        b"%d" % number for number in range(20)
    )


def test_a_topic_deleted_while_it_is_written_to(live_api: LiveApi) -> None:
    running = [
        begin(live_api, topics.PRODUCE, ORDERS, body=Produce([b"%d" % number]))
        for number in range(10)
    ]
    live_api.call(topics.DELETE_TOPIC, ORDERS)
    for one in running:
        with contextlib.suppress(Closed, NotFound):  # it came too late
            assert told(one).appended[0].count == 1
    with pytest.raises(NotFound):
        live_api.call(topics.PRODUCE, ORDERS, body=Produce([b"x"]))
