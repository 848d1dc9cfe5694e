"""Records through the API: appended as documents, lines and bytes; read in pages; waited for."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path

import msgspec
import pytest

from lakebed.aof.config import AofConfig, FlushConfig
from lakebed.aof.errors import BackpressureKind, NotDurableYet, WouldBlock
from lakebed.aof.record_id import RecordId
from lakebed.api import logs, media
from lakebed.api.logs import AppendRecords, Flush
from lakebed.base.errors import Busy, InputError, NoSpace, NotFound, OutcomeUnknown, TooLarge
from lakebed.base.units import KIB
from tests.fakes.failing_disk import FailingDisk
from tests.http_api.live_api import LiveApi, open_api, target_of
from tests.http_api.log_apis import ORDERS, SMALL, append, fill, ids, read_all
from tests.http_api.waiters import begin, told, wait_until

RECORDS = target_of(logs.APPEND_RECORDS, ORDERS)
LINES = {"Content-Type": media.LINES}


@pytest.fixture
def live_api(tmp_path: Path) -> Iterator[LiveApi]:
    with open_api(tmp_path, config=SMALL) as live_api:
        live_api.call(logs.OPEN_LOG, ORDERS)
        yield live_api


@pytest.mark.parametrize("accept", [media.JSON, media.MSGPACK])
def test_a_document_of_records_is_durable_when_it_is_answered(
    live_api: LiveApi, accept: str
) -> None:
    payloads = [b"text", b"\x00\xff" * 50, b"z"]
    body = AppendRecords(payloads, ext_ids=[1, 2, (1 << 64) - 1], timestamps=[7, 8, 9])
    found = live_api.call(logs.APPEND_RECORDS, ORDERS, body=body, accept=accept).record_ids
    log = live_api.store.log("orders")
    assert log.durable_end() > found[-1]
    assert [log.get(RecordId(one)).payload for one in found] == payloads
    page = live_api.call(logs.READ_RECORDS, ORDERS, accept=accept)
    assert page.record_ids == found
    assert page.payloads == payloads
    assert page.ext_ids == [1, 2, (1 << 64) - 1]
    assert page.timestamps == [7, 8, 9]
    assert page.next == page.durable_end == log.durable_end()


def test_an_append_that_does_not_wait_is_made_durable_by_a_flush(live_api: LiveApi) -> None:
    (found,) = append(live_api, b"soon", is_durable=False)
    live_api.call(logs.FLUSH_LOG, ORDERS, body=Flush(found))
    assert live_api.store.log("orders").durable_end() > found
    for again in (Flush(), Flush(found, timeout_ms=0), Flush(timeout_ms=60_000)):
        live_api.call(logs.FLUSH_LOG, ORDERS, body=again)
    with pytest.raises(NotFound, match="has not been appended"):
        live_api.call(logs.FLUSH_LOG, ORDERS, body=Flush(found + 8000))
    for wrong in (-1, 1 << 64):
        with pytest.raises(InputError):
            live_api.call(logs.FLUSH_LOG, ORDERS, body=Flush(wrong), accept=media.JSON)


def test_each_line_is_a_record(live_api: LiveApi) -> None:
    answer = live_api.ask(
        "POST", RECORDS + "?ext_id=5&timestamp=9", b'{"a": 1}\nplain \r\nlast', LINES
    )
    assert len(answer.json["record_ids"]) == 3
    page = live_api.call(logs.READ_RECORDS, ORDERS)
    assert page.payloads == [b'{"a": 1}', b"plain \r", b"last"]
    assert (page.ext_ids, page.timestamps) == ([5, 5, 5], [9, 9, 9])


def test_an_empty_line_is_refused_with_all_others(live_api: LiveApi) -> None:
    answer = live_api.ask("POST", RECORDS, b"one\n\nthree\n", LINES)
    assert answer.status == 400
    assert "line 2" in str(answer.problem)
    assert read_all(live_api) == []
    assert live_api.ask("POST", RECORDS, b"", LINES).json == {"record_ids": []}


@pytest.mark.parametrize("kind", [media.BYTES, "text/plain; charset=utf-8"])
def test_bytes_are_one_record_whatever_they_are(live_api: LiveApi, kind: str) -> None:
    data = b"line\nline\n\0\xff"
    answer = live_api.ask("POST", RECORDS, data, {"Content-Type": kind})
    assert answer.status == 200, answer
    assert read_all(live_api) == [data]
    assert live_api.ask("POST", RECORDS, b"", {"Content-Type": kind}).status == 400


WRONG = [
    ({"payloads": ["YQ==", ""]}, "record 1 is empty"),
    ({"payloads": ["YQ=="], "ext_ids": []}, "ext_ids has 0 items for 1"),
    ({"payloads": ["YQ=="], "timestamps": [1, 2]}, "timestamps has 2 items"),
    ({"payloads": ["YQ=="], "ext_ids": [-1]}, "is not from 0 to"),
    ({"payloads": ["YQ=="], "ext_ids": [1 << 64]}, "is not from 0 to"),
    ({"payloads": ["no base64!"]}, "payloads"),
    ({"payloads": "YQ=="}, "payloads"),
    ({"payloads": ["YQ=="], "surprise": 1}, "surprise"),
    ({"payloads": ["YQ=="], "timeout_ms": -1}, "timeout_ms"),
    ({}, "payloads"),
]


@pytest.mark.parametrize(("document", "reason"), WRONG, ids=[reason for _, reason in WRONG])
def test_a_wrong_document_appends_nothing(
    live_api: LiveApi, document: dict[str, object], reason: str
) -> None:
    answer = live_api.ask("POST", RECORDS, msgspec.json.encode(document))
    assert answer.status == 400, answer
    assert reason in str(answer.problem)
    assert read_all(live_api) == []


def test_a_record_too_large_for_a_segment_refuses_those_before_it_too(live_api: LiveApi) -> None:
    with pytest.raises(TooLarge, match="record 1 "):
        append(live_api, b"a", b"b" * (64 * KIB))
    assert read_all(live_api) == []
    largest = b"c" * (64 * KIB - 64 - 96 - 24)
    append(live_api, largest)
    assert read_all(live_api) == [largest]


@pytest.mark.parametrize("query", ["ext_id=-1", "timestamp=1e99x", "is_durable=maybe", "other=1"])
def test_a_wrong_query_appends_nothing(live_api: LiveApi, query: str) -> None:
    answer = live_api.ask("POST", f"{RECORDS}?{query}", b"line\n", LINES)
    assert answer.status == 400, answer
    assert read_all(live_api) == []


def test_a_document_with_a_query_beside_it_is_refused(live_api: LiveApi) -> None:
    answer = live_api.ask("POST", RECORDS + "?ext_id=1", b'{"payloads": ["YQ=="]}')
    assert answer.status == 400
    assert read_all(live_api) == []
    assert live_api.ask("POST", RECORDS, b"<a/>", {"Content-Type": "text/xml"}).status == 415


TINY = AofConfig(
    segment_bytes=64 * KIB,
    flush=FlushConfig(flush_bytes=4 * KIB, max_unflushed_bytes=8 * KIB, flush_ms=60_000),
)


def test_of_a_batch_that_would_block_it_is_told_what_was_appended(tmp_path: Path) -> None:
    payloads = [bytes([index]) * 1000 for index in range(1, 31)]
    with open_api(tmp_path, config=TINY) as live_api:
        live_api.call(logs.OPEN_LOG, ORDERS)
        with pytest.raises(WouldBlock) as refused:
            append(live_api, *payloads)
        appended = refused.value.record_ids
        assert refused.value.kind is BackpressureKind.FLUSH
        assert isinstance(refused.value, Busy)
        assert 0 < len(appended) < len(payloads)
        live_api.call(logs.FLUSH_LOG, ORDERS)
        page = live_api.call(logs.READ_RECORDS, ORDERS)
        assert page.record_ids == appended
        assert page.payloads == payloads[: len(appended)]


def test_a_batch_with_time_waits_for_what_it_would_block_on(tmp_path: Path) -> None:
    payloads = [bytes([index]) * 1000 for index in range(1, 251)]
    with open_api(tmp_path, config=TINY) as live_api:
        live_api.call(logs.OPEN_LOG, ORDERS)
        found = append(live_api, *payloads, timeout_ms=60_000)
        page = live_api.call(logs.READ_RECORDS, ORDERS)
        assert page.record_ids == found
        assert page.payloads == payloads, "over several segments, none twice and none left out"


def test_an_append_to_a_full_disk_is_waited_for_until_there_is_room(tmp_path: Path) -> None:
    disk = FailingDisk(told_free_bytes=0)
    with open_api(tmp_path, disk=disk) as live_api:
        live_api.call(logs.OPEN_LOG, ORDERS)
        body = AppendRecords([b"waits for room"], timeout_ms=60_000)
        waiting = begin(live_api, logs.APPEND_RECORDS, ORDERS, body=body)
        log = live_api.store.log("orders")
        wait_until(live_api, lambda: log.counters.snapshot().counters["aof_flush_failures"] > 1)
        with pytest.raises(WouldBlock) as refused:
            append(live_api, b"refused before it was queued")
        assert (refused.value.kind, refused.value.record_ids) == (BackpressureKind.FLUSH, [])
        disk.told_free_bytes = None
        assert told(waiting).record_ids == live_api.call(logs.READ_RECORDS, ORDERS).record_ids
        assert read_all(live_api) == [b"waits for room"]


def test_an_append_that_stays_queued_on_a_full_disk_is_told_as_unknown_with_its_ids(
    tmp_path: Path,
) -> None:
    disk = FailingDisk(told_free_bytes=0)
    with open_api(tmp_path, disk=disk) as live_api:
        live_api.call(logs.OPEN_LOG, ORDERS)
        asked = AppendRecords([b"a", b"b"], timeout_ms=1)
        answer = live_api.ask("POST", RECORDS, msgspec.json.encode(asked))
        error = answer.problem
        assert (answer.status, "retry-after" in answer.headers) == (504, False)
        assert isinstance(error, NotDurableYet)
        assert isinstance(error, OutcomeUnknown)
        assert "do not append them again" in answer.json["advice"]
        assert "kept in reserve" in str(error)
        with pytest.raises(NoSpace):
            live_api.call(logs.FLUSH_LOG, ORDERS, body=logs.Flush(int(error.record_ids[-1])))
        disk.told_free_bytes = None
        live_api.call(logs.FLUSH_LOG, ORDERS, body=logs.Flush(int(error.record_ids[-1])))
        assert live_api.call(logs.READ_RECORDS, ORDERS).record_ids == error.record_ids
        assert read_all(live_api) == [b"a", b"b"], "as the answer said, and once"


def test_many_who_append_at_once_share_flushes(live_api: LiveApi) -> None:
    waiting: list[Future[logs.RecordIds]] = [
        begin(live_api, logs.APPEND_RECORDS, ORDERS, body=AppendRecords([b"%d" % number]))
        for number in range(24)
    ]
    found = [told(one).record_ids[0] for one in waiting]
    assert len(set(found)) == 24
    assert sorted(read_all(live_api), key=int) == [b"%d" % number for number in range(24)]


def test_pages_are_bounded_by_records_and_by_bytes(live_api: LiveApi) -> None:
    stored = fill(live_api, 3)
    assert len(live_api.call(logs.READ_RECORDS, ORDERS, {"max_records": 7}).payloads) == 7
    assert read_all(live_api, max_records=7) == stored
    few = live_api.call(logs.READ_RECORDS, ORDERS, {"max_bytes": 3500}).payloads
    assert sum(map(len, few)) <= 3500
    assert len(few) == 3
    assert read_all(live_api, max_bytes=3500) == stored
    assert len(live_api.call(logs.READ_RECORDS, ORDERS, {"max_bytes": 1}).payloads) == 1
    assert read_all(live_api, max_bytes=1) == stored, "one record at least"


def test_a_page_behind_a_segment_needs_that_segment_no_more(live_api: LiveApi) -> None:
    fill(live_api, 2)
    page = live_api.call(logs.READ_RECORDS, ORDERS, {"max_records": 10})
    assert ids([page.next]) == ["1:64"]


def test_a_read_ends_where_it_was_told_to(live_api: LiveApi) -> None:
    stored = fill(live_api, 2)
    everything = live_api.call(logs.READ_RECORDS, ORDERS).record_ids
    for first, last in ((0, 20), (3, 12), (10, 11), (5, 5)):
        end = everything[last] if last < 20 else None
        query = {"start": everything[first], "end": end, "wait_ms": 0 if end is None else 60_000}
        page = live_api.call(logs.READ_RECORDS, ORDERS, query)
        assert page.payloads == stored[first:last]
    with pytest.raises(InputError, match="before the start"):
        live_api.call(logs.READ_RECORDS, ORDERS, {"start": everything[5], "end": everything[3]})
    with pytest.raises(NotFound):
        live_api.call(logs.READ_RECORDS, ORDERS, {"start": everything[5] + 8})
    with pytest.raises(NotFound, match="segment 9 does not exist"):
        live_api.call(logs.READ_RECORDS, ORDERS, {"start": "9:64"})


def test_records_are_read_backward(live_api: LiveApi) -> None:
    stored = fill(live_api, 2)
    found: list[bytes] = []
    position: object = None
    while True:
        query = {"start": position, "backward": True, "max_records": 6, "wait_ms": 60_000}
        page = live_api.call(logs.READ_RECORDS, ORDERS, query)
        if not page.payloads:
            break
        found += page.payloads
        position = page.next
    assert found == stored[::-1]
    assert (
        len(live_api.call(logs.READ_RECORDS, ORDERS, {"backward": True, "max_bytes": 1}).payloads)
        == 1
    )
    with pytest.raises(InputError):
        live_api.call(logs.READ_RECORDS, ORDERS, {"backward": True, "end": 64})


def test_records_are_read_as_lines(live_api: LiveApi) -> None:
    found = append(live_api, "grün\n".encode(), b"\xff\0", ext_ids=[1, 2], timestamps=[3, 4])
    answer = live_api.ask("GET", RECORDS, headers={"Accept": media.LINES})
    assert answer.headers["content-type"] == media.LINES
    first, second = map(msgspec.json.decode, answer.body.splitlines())
    assert first == {
        "record_id": ids(found)[0], "timestamp": 3, "ext_id": 1, "payload": "grün\n"
    }  # fmt: skip
    assert second.keys() == {"record_id", "timestamp", "ext_id", "payload_base64"}
    assert base64.b64decode(second["payload_base64"]) == b"\xff\0"
    end = str(live_api.store.log("orders").durable_end())
    assert (answer.headers["lakebed-next"], answer.headers["lakebed-durable-end"]) == (end, end)


def listeners(live_api: LiveApi) -> int:
    return len(live_api.store.log("orders")._notifier._listeners)


def test_a_long_poll_is_answered_by_the_next_record_and_holds_no_thread(live_api: LiveApi) -> None:
    append(live_api, b"before")
    end = live_api.store.log("orders").durable_end()
    count = live_api.api.service.limits.threads_max * 2
    waiting = [
        begin(live_api, logs.READ_RECORDS, ORDERS, {"start": end, "wait_ms": 60_000})
        for _ in range(count)
    ]
    wait_until(live_api, lambda: listeners(live_api) == count)
    assert live_api.call(logs.DESCRIBE_LOG, ORDERS).durable_end == end, (
        "others are served meanwhile"
    )
    append(live_api, b"new")
    assert [told(one).payloads for one in waiting] == [[b"new"]] * count
    wait_until(live_api, lambda: listeners(live_api) == 0)


def test_a_long_poll_of_an_empty_log_is_answered_by_its_first_record(live_api: LiveApi) -> None:
    waiting = begin(live_api, logs.READ_RECORDS, ORDERS, {"wait_ms": 60_000})
    wait_until(live_api, lambda: listeners(live_api) == 1)
    append(live_api, b"first")
    assert told(waiting).payloads == [b"first"]


def test_a_long_poll_ends_by_itself(live_api: LiveApi) -> None:
    page = live_api.call(logs.READ_RECORDS, ORDERS, {"wait_ms": 1})
    assert page.payloads == []
    with pytest.raises(InputError, match="wait_ms"):
        live_api.call(logs.READ_RECORDS, ORDERS, {"wait_ms": 60_001})


def test_who_goes_away_waits_no_more(live_api: LiveApi) -> None:
    client = live_api.connect()
    client.request("GET", RECORDS + "?wait_ms=60000")
    wait_until(live_api, lambda: listeners(live_api) == 1)
    client.close()
    wait_until(live_api, lambda: listeners(live_api) == 0)


def test_cold_segments_are_read_like_others(live_api: LiveApi) -> None:
    stored = fill(live_api, 4)
    tiers = live_api.store.log("orders").tiers
    tiers.upload([0, 1, 2])
    tiers.evict([0])
    tiers.evict([1], warm=True)
    assert read_all(live_api) == stored
    assert read_all(live_api, max_records=3) == stored
