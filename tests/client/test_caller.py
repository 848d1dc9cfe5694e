"""Calls: how they are written, what comes of answers, and which are made again."""

from __future__ import annotations

import msgspec
import pytest

from lakebed.aof.errors import BackpressureKind, WouldBlock
from lakebed.api import admin, groups, logs, media, objects, topics
from lakebed.api.operation import Nothing
from lakebed.api.operation_table import OPERATIONS
from lakebed.api.problems import Unauthenticated, Unreachable
from lakebed.base.errors import (
    BadName,
    Busy,
    Closed,
    InputError,
    LakebedError,
    NoSpace,
    NotFound,
    TooLarge,
)
from lakebed.base.units import MIB
from lakebed.client.caller import ANSWER_BYTES_MAX, target_of
from lakebed.client.connection import Pieces
from lakebed.client.errors import BadAnswer
from lakebed.keratin.errors import OffsetOutOfRange
from lakebed.seglake.model import Deleted
from tests.client.callers import calling
from tests.client.scripted import answer, document, hangs_up, problem, says

HEALTH = document(admin.Health("ok", "1"))
TOPIC = document(topics.TopicState("orders", [], {}))
CREATED = document(topics.TopicState("orders", [], {}), status=201)
ORDERS = {"topic": "orders"}
NEW = topics.NewTopic(name="orders")


# How a request is written.


@pytest.mark.parametrize(
    ("operation", "names", "query", "target"),
    [
        (topics.LIST_TOPICS, {}, None, "/v1/topics"),
        (topics.DESCRIBE_TOPIC, {"topic": "a b/c?d"}, None, "/v1/topics/a%20b%2Fc%3Fd"),
        (groups.LAG, {"topic": "t", "group": "ä%"}, None, "/v1/topics/t/groups/%C3%A4%25/lag"),
        (
            objects.GET_OBJECT,
            {"bucket": "b", "key": "/x//y"},
            objects.GetQuery(first=0),
            "/v1/buckets/b/objects/%2Fx%2F%2Fy?first=0",
        ),
        (
            topics.FETCH_RAW,
            {"topic": "t", "partition": 0},
            topics.RawFetchQuery(offset=7, wait_ms=5),
            "/v1/topics/t/partitions/0/records?offset=7&wait_ms=5",
        ),
        (
            logs.READ_RECORDS,
            {"log": "l"},
            logs.ReadQuery(start="3:64", backward=True),
            "/v1/logs/l/records?start=3%3A64&backward=true",
        ),
        (topics.FETCH, {"topic": "t", "partition": 1}, topics.FetchQuery(), None),
    ],
)
def test_names_and_query_are_in_the_target(
    operation: object, names: dict[str, object], query: msgspec.Struct | None, target: str | None
) -> None:
    found = target_of(operation, names, query)  # type: ignore[arg-type]
    assert found == (target or "/v1/topics/t/partitions/1/messages")


@pytest.mark.parametrize("name", ["", "\ud800"])
def test_a_name_that_cannot_be_in_a_path_is_refused(name: str) -> None:
    with pytest.raises(BadName):
        target_of(topics.DESCRIBE_TOPIC, {"topic": name}, None)


def test_every_operation_of_the_table_can_be_called() -> None:
    for operation in OPERATIONS:
        names = {
            part.strip("{}*"): "1" for part in operation.path.split("/") if part.startswith("{")
        }
        assert target_of(operation, names, None).startswith("/v1")


def test_documents_are_messagepack_both_ways_and_the_key_is_told() -> None:
    with calling(says(CREATED)) as (server, caller, _):
        assert caller.call(topics.CREATE_TOPIC, body=NEW) == topics.TopicState("orders", [], {})
    (seen,) = server.seen
    assert seen.line == "POST /v1/topics HTTP/1.1"
    assert seen.headers["content-type"] == media.MSGPACK
    assert media.MSGPACK in seen.headers["accept"]
    assert seen.headers["authorization"].startswith("Basic ")
    assert msgspec.msgpack.decode(seen.body) == {"name": "orders", "partitions": 1, "settings": {}}


def test_a_body_of_pieces_is_sent_in_chunks() -> None:
    info = Deleted("a", None, is_marker=False)
    with calling(says(document(info))) as (server, caller, _):
        pieces = Pieces([b"ab", b"", bytearray(b"c"), memoryview(b"d" * (2 * MIB))])
        names = {"bucket": "b", "key": "k"}
        with pytest.raises(BadAnswer):
            caller.send(objects.PUT_OBJECT, names, query=None, body=pieces)
    assert server.seen[0].body == b"abc" + b"d" * (2 * MIB)


def test_whoever_gives_the_pieces_may_fail() -> None:
    def source() -> object:
        yield b"some"
        raise OSError("the disk of the caller")

    with calling(says(HEALTH)) as (_, caller, runner):
        body = Pieces(source())  # type: ignore[arg-type]
        with pytest.raises(OSError, match="the disk of the caller"):
            caller.send(objects.PUT_OBJECT, {"bucket": "b", "key": "k"}, query=None, body=body)
    assert runner.slept_s == []


def test_connections_are_used_again() -> None:
    with calling(*[says(HEALTH)] * 5) as (server, caller, _):
        for _ in range(5):
            caller.call(admin.HEALTH)
    assert server.connections == 1


# What comes of an answer.


@pytest.mark.parametrize(
    "error",
    [
        NotFound("there is none"),
        TooLarge("the body", size=3, limit=2),
        OffsetOutOfRange("orders-0", 7, start_offset=0, high_watermark=3),
        Unauthenticated("who are you"),
    ],
)
def test_a_problem_is_the_same_error_again(error: NotFound) -> None:
    with calling(says(problem(error)), says(HEALTH)) as (server, caller, runner):
        with pytest.raises(type(error)) as told:
            caller.call(topics.DESCRIBE_TOPIC, ORDERS)
        assert str(told.value) == str(error)
        assert vars(told.value) == vars(error)
        caller.call(admin.HEALTH)
    assert (server.connections, runner.slept_s) == (1, [])


@pytest.mark.parametrize(
    "data",
    [
        answer(b"<html>", "text/html"),
        answer(b"<html>", "text/html", status=404),
        answer(b"{", media.PROBLEM, status=404),
        answer(b"[]", media.PROBLEM, status=404),
        answer(b"[" * 100_000, media.PROBLEM, status=404),
        answer(b"{}", media.JSON),
        answer(b"\xc1", media.MSGPACK),
        document({"status": "ok"}),
        document([1, 2, 3]),
        document(admin.Health("ok", "1"), status=302),
        b"220 mail.example.org ESMTP\r\n\r\n\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % (ANSWER_BYTES_MAX + 1),
        b"HTTP/1.1 404 OK\r\nContent-Length: %d\r\n\r\n" % (2 * MIB),
    ],
)
def test_a_malformed_answer_is_told_as_that_and_not_asked_for_again(data: bytes) -> None:
    with calling(says(data), says(HEALTH)) as (server, caller, runner):
        with pytest.raises(BadAnswer) as told:
            caller.call(admin.HEALTH)
        assert "\n" not in str(told.value)
        assert len(str(told.value)) < 500
    assert (len(server.seen), runner.slept_s) == (1, [])


def test_after_a_malformed_answer_the_connection_is_not_used_again() -> None:
    bad = b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n"
    with calling(says(bad), says(HEALTH)) as (server, caller, _):
        with pytest.raises(BadAnswer):
            caller.call(admin.HEALTH)
        caller.call(admin.HEALTH)
    assert server.connections == 2


def test_nothing_is_what_comes_of_an_answer_without_a_body() -> None:
    with calling(says(b"HTTP/1.1 204 No Content\r\n\r\n")) as (_, caller, _):
        assert caller.call(topics.DELETE_TOPIC, ORDERS) == Nothing()


# Again.


def test_a_lost_answer_is_asked_for_again_where_that_is_safe() -> None:
    acts = [hangs_up, says(HEALTH[:30], keeps=False), says(HEALTH)]
    with calling(*acts) as (server, caller, runner):
        assert caller.call(admin.HEALTH).status == "ok"
    assert len(server.seen) == 3
    assert [0.005 <= slept <= 0.02 for slept in runner.slept_s] == [True, True]


def test_a_lost_answer_is_not_asked_for_again_where_that_is_not_safe() -> None:
    with (
        calling(hangs_up, says(CREATED)) as (server, caller, runner),
        pytest.raises(Unreachable, match="it is unknown whether the call ran"),
    ):
        caller.call(topics.CREATE_TOPIC, body=NEW)
    assert (len(server.seen), runner.slept_s) == (1, [])


def test_the_deadline_ends_it() -> None:
    with (
        calling(retry_s=10.0) as (server, caller, runner),
        pytest.raises(Unreachable, match="the connection was closed"),
    ):
        caller.call(admin.HEALTH)
    assert 9 <= sum(runner.slept_s) <= 10
    assert len(server.seen) == len(runner.slept_s) + 1


@pytest.mark.parametrize("error", [Busy("full"), Busy("draining")])
def test_a_refusal_is_waited_out_as_long_as_the_server_says(error: Busy) -> None:
    acts = [says(problem(error, retry_after_s=3)), says(CREATED)]
    with calling(*acts) as (server, caller, runner):
        caller.call(topics.CREATE_TOPIC, body=NEW)
    assert len(server.seen) == 2
    (slept_s,) = runner.slept_s
    assert 3 <= slept_s <= 3.02


def test_a_refusal_in_plain_text_is_one_too() -> None:
    plain = answer(b"too many connections", "text/plain", status=503, headers=["Retry-After: 1"])
    with calling(says(plain), says(CREATED)) as (_, caller, runner):
        caller.call(topics.CREATE_TOPIC, body=NEW)
        assert len(runner.slept_s) == 1
    with (
        calling(says(plain), retry_s=0) as (_, caller, _),
        pytest.raises(Busy, match="too many connections"),
    ):
        caller.call(topics.CREATE_TOPIC, body=NEW)


def test_a_refusal_without_end_is_told_at_the_deadline() -> None:
    refusal = says(problem(Busy("full"), retry_after_s=2))
    with (
        calling(*[refusal] * 10) as (server, caller, runner),
        pytest.raises(Busy, match="full"),
    ):
        caller.call(admin.HEALTH)
    assert len(server.seen) == 5
    assert sum(runner.slept_s) <= 10


def test_what_a_log_would_wait_for_is_told_at_once() -> None:
    error = WouldBlock(BackpressureKind.FLUSH, "full", record_ids=[])
    with (
        calling(says(problem(error, retry_after_s=1)), says(HEALTH)) as (server, caller, _),
        pytest.raises(WouldBlock) as told,
    ):
        caller.call(logs.APPEND_RECORDS, {"log": "l"}, body=logs.AppendRecords([b"x"]))
    assert told.value.kind is BackpressureKind.FLUSH
    assert len(server.seen) == 1


def test_a_body_of_pieces_is_sent_once() -> None:
    with (
        calling(says(problem(Busy("full"), retry_after_s=1)), says(HEALTH)) as (server, caller, _),
        pytest.raises(Busy),
    ):
        caller.send(
            objects.PUT_OBJECT,
            {"bucket": "b", "key": "k"},
            query=None,
            body=Pieces([b"once"]),
        )
    assert len(server.seen) == 1


def test_an_earlier_doubt_is_not_forgotten() -> None:
    """The last try never reached anybody; the one before it may have been carried out."""
    with calling(hangs_up, retry_s=1.0) as (server, caller, runner):
        sleep = runner.sleep_ns

        def stop_then_sleep(duration_ns: int) -> None:
            server.stop()
            sleep(duration_ns)

        runner.sleep_ns = stop_then_sleep  # type: ignore[method-assign]
        with pytest.raises(Unreachable, match="refused; it is unknown whether the call ran"):
            caller.call(topics.CREATE_TOPIC, body=NEW, is_repeatable=True)


@pytest.mark.parametrize("error", [Busy("full"), Closed("the store is closed"), NoSpace("full")])
def test_a_refusal_behind_a_lost_answer_does_not_say_that_nothing_was_done(
    error: LakebedError,
) -> None:
    """Who trusts that `Busy` changed nothing sends it again, and it would be there twice."""
    told = problem(error, retry_after_s=1)
    with (
        calling(hangs_up, *[says(told)] * 9, retry_s=3.0) as (server, caller, _),
        pytest.raises(Unreachable, match=r"full|closed") as found,
    ):
        caller.call(topics.PRODUCE, ORDERS, body=topics.Produce([b"x"]), is_repeatable=True)
    assert str(found.value).endswith("; it is unknown whether the call ran")
    assert len(server.seen) > 1


def test_a_refusal_behind_a_lost_answer_is_itself_if_the_call_changes_nothing() -> None:
    told = problem(Busy("full"), retry_after_s=1)
    with (
        calling(hangs_up, *[says(told)] * 9, retry_s=3.0) as (_, caller, _),
        pytest.raises(Busy, match="full"),
    ):
        caller.call(topics.DESCRIBE_TOPIC, ORDERS)


def test_what_is_wrong_with_a_call_is_told_behind_a_lost_answer_too() -> None:
    with (
        calling(hangs_up, says(problem(NotFound("there is none")))) as (_, caller, _),
        pytest.raises(NotFound, match="there is none"),
    ):
        caller.call(topics.PRODUCE, ORDERS, body=topics.Produce([b"x"]), is_repeatable=True)


def test_a_closed_caller_says_so() -> None:
    with calling(says(HEALTH)) as (server, caller, _):
        caller.close()
        caller.close()
        with pytest.raises(Closed):
            caller.call(admin.HEALTH)
    assert server.seen == []


def test_what_cannot_be_written_is_refused_before_it_is_sent() -> None:
    with calling(says(HEALTH)) as (server, caller, _):
        for value in (object(), 1 << 70):
            with pytest.raises(InputError, match="cannot be encoded"):
                caller.call(admin.START_WORK, body=admin.StartJob("x", {"it": value}))
    assert server.seen == []
