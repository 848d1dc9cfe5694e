"""The tail of a log through the API: without end, and with the ends that it has nevertheless."""

from __future__ import annotations

import http.client
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest

from lakebed.aof.config import AofConfig, RetentionConfig
from lakebed.aof.log import Aof
from lakebed.api import logs, media
from lakebed.api.problems import error_of
from lakebed.base.errors import Closed, NotFound
from lakebed.base.units import KIB
from tests.http_api.live_api import LiveApi, open_api, target_of
from tests.http_api.log_apis import ORDERS, SMALL, append, fill, ids
from tests.http_api.waiters import wait_until


class Tail:
    """A client that reads line by line."""

    def __init__(self, connection: http.client.HTTPConnection) -> None:
        self._connection = connection
        self._response = connection.getresponse()
        assert self._response.status == 200
        assert self._response.headers["Content-Type"] == media.LINES

    def record(self) -> dict[str, object]:
        found: dict[str, object] = msgspec.json.decode(self._response.readline())
        return found

    def payload(self) -> object:
        return self.record()["payload"]

    def rest(self) -> bytes:
        return self._response.read()

    def close(self) -> None:
        self._response.close()
        self._connection.close()


@contextmanager
def tail(live_api: LiveApi, **query: object) -> Iterator[Tail]:
    lines = begun(live_api, **query)
    try:
        yield lines
    finally:
        lines.close()


def begun(live_api: LiveApi, **query: object) -> Tail:
    connection = live_api.connect()
    connection.request("GET", target_of(logs.TAIL_LOG, ORDERS, query))
    return Tail(connection)


@pytest.fixture
def live_api(tmp_path: Path) -> Iterator[LiveApi]:
    with open_api(tmp_path, config=SMALL) as live_api:
        live_api.call(logs.OPEN_LOG, ORDERS)
        yield live_api


def test_a_tail_begins_at_the_durable_end(live_api: LiveApi) -> None:
    append(live_api, b"before")
    with tail(live_api) as lines:
        found = append(live_api, b"one", b"two", timestamps=[1, 2], ext_ids=[3, 4])
        assert lines.record() == {
            "record_id": ids(found)[0], "timestamp": 1, "ext_id": 3, "payload": "one"
        }  # fmt: skip
        assert lines.payload() == "two"
        for number in range(5):
            append(live_api, b"%d" % number)
            assert lines.payload() == str(number)


def test_a_tail_with_a_start_gives_what_is_there_and_goes_on(live_api: LiveApi) -> None:
    fill(live_api, 2)
    found = append(live_api, b"a", b"b")
    with tail(live_api, start=0) as lines:
        for _ in range(20):
            lines.payload()
        assert (lines.payload(), lines.payload()) == ("a", "b")
        live_api.call(logs.SEAL_LOG, ORDERS)
        append(live_api, b"behind the seal")
        assert lines.payload() == "behind the seal"
    with tail(live_api, start=ids(found)[1]) as lines:
        assert lines.payload() == "b"


def test_bytes_that_are_no_text_are_told_as_base64(live_api: LiveApi) -> None:
    append(live_api, b"\xff\xfe")
    with tail(live_api, start=0) as lines:
        assert lines.record()["payload_base64"] == "//4="


@pytest.mark.parametrize(("start", "status"), [("0:72", 404), ("x", 400), ("", 400), ("-1", 400)])
def test_a_start_that_is_none_is_an_error_and_no_tail(
    live_api: LiveApi, start: str, status: int
) -> None:
    append(live_api, b"a" * 100)
    answer = live_api.ask("GET", target_of(logs.TAIL_LOG, ORDERS, {"start": start}))
    assert answer.status == status
    assert live_api.store.log("orders")._holds.lowest_segment() is None


def test_of_a_client_that_goes_nothing_is_left(live_api: LiveApi) -> None:
    log = live_api.store.log("orders")
    with tail(live_api) as lines:
        append(live_api, b"a")
        lines.payload()
        wait_until(live_api, lambda: len(log._notifier._listeners) == 2)
        assert log._holds.lowest_segment() == 0
    wait_until(live_api, lambda: not log._notifier._listeners)
    wait_until(live_api, lambda: log._holds.lowest_segment() is None)
    wait_until(live_api, lambda: live_api.api.service.budget.requests == 0)


def test_tails_hold_no_thread(live_api: LiveApi) -> None:
    count = live_api.api.service.limits.threads_max * 2
    tails = [begun(live_api) for _ in range(count)]
    append(live_api, b"to all")
    assert {one.payload() for one in tails} == {"to all"}
    for one in tails:
        one.close()


def test_a_tail_ends_whole_when_the_api_is_closed(tmp_path: Path) -> None:
    with open_api(tmp_path, config=SMALL) as live_api:
        live_api.call(logs.OPEN_LOG, ORDERS)
        lines = begun(live_api)
        append(live_api, b"last")
        assert lines.payload() == "last"
    assert lines.rest() == b"", "the last chunk came"
    lines.close()


def test_a_tail_of_a_log_that_is_closed_says_so_in_its_last_line_and_is_logged(
    live_api: LiveApi, caplog: pytest.LogCaptureFixture
) -> None:
    with tail(live_api) as lines:
        append(live_api, b"a")
        lines.payload()
        live_api.store.log("orders").close()
        told = msgspec.json.decode(lines.rest())
        assert isinstance(error_of(told["problem"]), Closed)
    [line] = [message for message in caplog.messages if message.startswith("request_failed")]
    assert "operation=tail_log" in line


RETAINING = AofConfig(segment_bytes=64 * KIB, retention=RetentionConfig(count_max=1))
SEGMENTS = 60


def fill_one_by_one(log: Aof) -> None:
    """Each record has a segment of its own."""
    for number in range(SEGMENTS):
        log.append_record_with_timeout(b"%03d" % number + b"x" * 60_000, 60)
    log.flush()


def test_a_slow_client_is_waited_for_by_retention_and_by_memory(tmp_path: Path) -> None:
    with open_api(tmp_path, config=RETAINING) as live_api:
        live_api.call(logs.OPEN_LOG, ORDERS)
        log = live_api.store.log("orders")
        with tail(live_api) as lines:
            fill_one_by_one(log)
            live_api.call(logs.SEAL_LOG, ORDERS)
            wait_until(
                live_api,
                lambda: log.segments()[0].segment_id == log._holds.lowest_segment(),
            )
            lowest = log._holds.lowest_segment()
            assert lowest is not None
            assert lowest < SEGMENTS // 2, "no more was taken than the sockets and a batch hold"
            numbers = [str(lines.payload())[:3] for _ in range(SEGMENTS)]
            assert numbers == [f"{number:03}" for number in range(SEGMENTS)]
        wait_until(live_api, lambda: log._holds.lowest_segment() is None)
        wait_until(live_api, lambda: len(log.segments()) == 1)


def test_a_tail_that_was_overtaken_says_so_in_its_last_line(tmp_path: Path) -> None:
    with open_api(tmp_path, config=RETAINING) as live_api:
        live_api.call(logs.OPEN_LOG, ORDERS)
        log = live_api.store.log("orders")
        with tail(live_api) as lines:
            log._holds._readers.clear()
            fill_one_by_one(log)
            live_api.call(logs.SEAL_LOG, ORDERS)
            wait_until(live_api, lambda: len(log.segments()) == 1)
            *taken, last = map(msgspec.json.decode, lines.rest().splitlines())
            numbers = [one["payload"][:3] for one in taken]
            assert numbers == [f"{number:03}" for number in range(len(numbers))], "without a gap"
            assert isinstance(error_of(last["problem"]), NotFound)
