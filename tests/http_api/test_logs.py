"""Logs through the API: opened, listed, described, sealed, sought in; watermarks and tiers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lakebed.aof.record_id import RecordId
from lakebed.aof.view import LogDescription
from lakebed.api import logs, media
from lakebed.api.logs import Seal, WatermarkBody
from lakebed.api.operation import Operation
from lakebed.base.errors import BadName, InputError, NoSpace, NotFound
from lakebed.client.address import Address
from lakebed.client.store import RemoteStore
from lakebed.seglake.meta.connection import connect
from lakebed.store.read_plan import WantedRead
from tests.fakes.failing_disk import FailingDisk
from tests.http_api.live_api import LiveApi, open_api, target_of
from tests.http_api.log_apis import ORDERS, SMALL, append, fill, read_all


@pytest.fixture
def live_api(tmp_path: Path) -> Iterator[LiveApi]:
    with open_api(tmp_path, config=SMALL) as live_api:
        yield live_api


@pytest.mark.parametrize("accept", [media.JSON, media.MSGPACK])
def test_a_log_is_opened_listed_and_described(live_api: LiveApi, accept: str) -> None:
    opened = live_api.call(logs.OPEN_LOG, ORDERS, accept=accept)
    assert opened == LogDescription(
        name="orders",
        stream_id=live_api.store.log("orders").stream_id,
        durable_end=64,
        coordinator_watermark=0,
        segments=0,
    )
    assert live_api.call(logs.OPEN_LOG, ORDERS, accept=accept) == opened, "as often as one likes"
    append(live_api, b"a")
    described = live_api.call(logs.DESCRIBE_LOG, ORDERS, accept=accept)
    assert described.durable_end == live_api.store.log("orders").durable_end()
    assert described.segments == 1
    assert live_api.call(logs.LIST_LOGS, accept=accept).logs == ["orders"]


OF_A_LOG = [one for one in logs.OPERATIONS if "{log}" in one.path and one is not logs.OPEN_LOG]


@pytest.mark.parametrize("operation", OF_A_LOG, ids=lambda one: one.name)
def test_nothing_but_opening_creates_a_log(live_api: LiveApi, operation: Operation[object]) -> None:
    names = {"log": "missing", "segment": 0}
    query = {"timestamp_ns": 1} if operation is logs.SEEK_LOG else None
    answer = live_api.ask(operation.method, target_of(operation, names, query))
    assert isinstance(answer.problem, NotFound), answer
    assert "missing" in str(answer.problem)
    assert live_api.store.logs() == []


def test_a_log_of_an_earlier_opening_is_found(tmp_path: Path) -> None:
    with open_api(tmp_path, config=SMALL) as live_api:
        live_api.call(logs.OPEN_LOG, ORDERS)
        append(live_api, b"kept")
    with open_api(tmp_path, config=SMALL) as live_api:
        assert live_api.call(logs.DESCRIBE_LOG, ORDERS).segments == 1
        assert live_api.call(logs.READ_RECORDS, ORDERS).payloads == [b"kept"]


@pytest.mark.parametrize("name", ["..", "a/b", "a b", "ü", "\0", ".", "x" * 201, "-a"])
def test_a_name_that_is_no_folders_is_refused(live_api: LiveApi, name: str) -> None:
    for operation in (logs.OPEN_LOG, logs.DESCRIBE_LOG):
        with pytest.raises(BadName):
            live_api.call(operation, {"log": name})
    assert live_api.store.logs() == []


def test_sealing_tells_the_segment_and_nothing_if_there_is_none(live_api: LiveApi) -> None:
    live_api.call(logs.OPEN_LOG, ORDERS)
    assert live_api.call(logs.SEAL_LOG, ORDERS).segment is None
    append(live_api, b"a")
    sealed = live_api.call(logs.SEAL_LOG, ORDERS, body=Seal(timeout_ms=60_000)).segment
    assert sealed is not None
    assert (sealed.segment_id, sealed.is_sealed, sealed.tier) == (0, True, 0)
    assert sealed.end == live_api.store.log("orders").segments()[0].end
    assert live_api.call(logs.SEAL_LOG, ORDERS).segment is None


def test_the_watermark_never_goes_back(live_api: LiveApi) -> None:
    live_api.call(logs.OPEN_LOG, ORDERS)
    for given, expected in ((7, 7), (3, 7), ((1 << 64) - 1, (1 << 64) - 1)):
        state = live_api.call(logs.SET_WATERMARK, ORDERS, body=WatermarkBody(given))
        assert state.coordinator_watermark == expected
    target = target_of(logs.SET_WATERMARK, ORDERS)
    for wrong in (b'{"watermark": 18446744073709551616}', b'{"watermark": -1}', b"{}", b"[]"):
        assert isinstance(live_api.ask("PUT", target, wrong).problem, InputError)


def test_a_position_is_found_by_time(live_api: LiveApi) -> None:
    live_api.call(logs.OPEN_LOG, ORDERS)
    found = append(live_api, b"a", b"b", b"c", timestamps=[10, 20, 30])
    for timestamp, expected in ((0, found[0]), (20, found[1]), (21, found[2])):
        sought = live_api.call(logs.SEEK_LOG, ORDERS, {"timestamp_ns": timestamp})
        assert sought.record_id == expected
    end = live_api.store.log("orders").durable_end()
    for timestamp in (31, 10**30):
        assert live_api.call(logs.SEEK_LOG, ORDERS, {"timestamp_ns": timestamp}).record_id == end
    with pytest.raises(InputError, match="timestamp_ns"):
        live_api.call(logs.SEEK_LOG, ORDERS, {"timestamp_ns": "yesterday"})


def test_tiers_tell_where_every_segment_is(live_api: LiveApi) -> None:
    live_api.call(logs.OPEN_LOG, ORDERS)
    fill(live_api, 3)
    append(live_api, b"active")
    tiers = live_api.store.log("orders").tiers
    tiers.upload([0, 1])
    tiers.evict([0])
    tiers.evict([1], warm=True)
    places = live_api.call(logs.LOG_TIERS, ORDERS).segments
    assert [one.tiers for one in places] == [(1, 2), (2,), (0,), (0,)]
    assert [one.is_sealed for one in places] == [True, True, True, False]
    assert all(one.key for one in places[:2])
    assert places[0].compressed_bytes > 0
    assert tiers.residency() == places
    assert {(one.pending, one.failures) for one in places} == {((), ())}


def test_ids_are_told_in_either_form(live_api: LiveApi) -> None:
    live_api.call(logs.OPEN_LOG, ORDERS)
    first, second = append(live_api, b"a", b"b")
    for start in (second, str(RecordId(second))):
        assert live_api.call(logs.READ_RECORDS, ORDERS, {"start": start}).record_ids == [second]
    for wrong in ("", ":", "1:2:3", "-1", "x", "4294967296:0", "0:4294967296", "9" * 30):
        with pytest.raises(InputError):
            live_api.call(logs.READ_RECORDS, ORDERS, {"start": wrong})
    assert first < second


def test_a_log_that_the_program_closed_is_opened_again(live_api: LiveApi) -> None:
    live_api.call(logs.OPEN_LOG, ORDERS)
    append(live_api, b"one")
    live_api.store.log("orders").close()
    append(live_api, b"two")
    assert read_all(live_api) == [b"one", b"two"]


def test_logs_are_read_after_a_restart_on_a_full_disk(tmp_path: Path) -> None:
    disk = FailingDisk()
    settings: dict[str, Any] = {"disk": disk, "connector": connect, "config": SMALL}
    with open_api(tmp_path, **settings) as live_api:
        live_api.call(logs.OPEN_LOG, ORDERS)
        live_api.call(logs.SET_WATERMARK, ORDERS, body=WatermarkBody(7))
        written = fill(live_api, 3)
        before = live_api.call(logs.DESCRIBE_LOG, ORDERS)
    disk.is_full = True
    with open_api(tmp_path, **settings) as live_api:
        assert live_api.call(logs.DESCRIBE_LOG, ORDERS) == before
        assert live_api.call(logs.OPEN_LOG, ORDERS) == before
        assert read_all(live_api) == written
        backward = live_api.call(logs.READ_RECORDS, ORDERS, {"backward": "true", "max_records": 1})
        assert backward.payloads == written[-1:]
        assert live_api.call(logs.SEEK_LOG, ORDERS, {"timestamp_ns": 1}).record_id == 64
        listed = live_api.call(logs.LOG_SEGMENTS, ORDERS)
        assert len(listed.segments) == before.segments
        assert live_api.call(logs.LOG_SEGMENT_BYTES, {**ORDERS, "segment": 0})
        with RemoteStore(Address(path=live_api.socket_path)) as remote:
            log = remote.log("orders")
            assert [record.payload for record in log.read()] == written
            assert [
                bytes(one) for batch in log.read_batches() for one in batch.payloads()
            ] == written
            assert remote.plan_logs([WantedRead("orders")], duration_ms=0, owner="test")
        with pytest.raises(NoSpace):
            append(live_api, b"refused")
        with pytest.raises(NoSpace):
            live_api.call(logs.OPEN_LOG, {"log": "another"})
        disk.is_full = False
        append(live_api, b"more")
        assert read_all(live_api) == [*written, b"more"]
