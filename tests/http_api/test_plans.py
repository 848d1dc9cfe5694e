"""Planned reads through the API: positions are resolved, ranges pinned, split points listed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from lakebed.aof.format import RECORDS_START
from lakebed.aof.manifest.paths import stream_name
from lakebed.aof.record_id import RecordId
from lakebed.api import media
from lakebed.api.plans import PLAN_LOGS, PLAN_TOPICS, PlanReads
from lakebed.base.errors import InputError, NotFound
from lakebed.store.read_plan import LATEST, PartitionEdges, ReadEdge, WantedRead
from lakebed.store.split_points import Bounds
from tests.http_api.live_api import LiveApi, open_api

MS_NS = 1_000_000


@pytest.fixture
def live_api(tmp_path: Path) -> Iterator[LiveApi]:
    with open_api(tmp_path) as opened:
        for partition in opened.store.topic("orders", partitions=3).partitions:
            partition.append_batch([b"x"] * 10, timestamps_ms=[*range(1, 11)]).result()
        log = opened.store.log("audit")
        for number in range(3):
            log.append_record(b"x" * 100, timestamp=(number + 1) * MS_NS)
            log.seal_current_segment()
        yield opened


def plan(*reads: WantedRead, duration_ms: int = 60_000) -> PlanReads:
    return PlanReads(list(reads), owner="a query", duration_ms=duration_ms)


EDGES = [PartitionEdges(0, start=ReadEdge(position=4)), PartitionEdges(2, end=ReadEdge(position=7))]
TOPIC_READS = [
    (WantedRead("orders"), [(0, 0, 10), (1, 0, 10), (2, 0, 10)]),
    (WantedRead("orders", edges=EDGES), [(0, 4, 10), (1, 0, 10), (2, 0, 7)]),
    (WantedRead("orders", ReadEdge(timestamp_us=2001), partitions=[1, 9]), [(1, 2, 10)]),
    (WantedRead("orders", end=ReadEdge(timestamp_us=3000), partition_start=2), [(2, 0, 2)]),
    (WantedRead("orders", ReadEdge(timestamp_us=0), partition_end=1), [(0, 0, 10)]),
    (WantedRead("orders", end=ReadEdge(position=99), partition_end=1), [(0, 0, 10)]),
    (WantedRead("orders", LATEST, partition_end=1), [(0, 10, 10)]),
    (
        WantedRead("orders", position_start=2, position_end=8, since_us=4000, partitions=[0]),
        [(0, 3, 8)],
    ),
    (WantedRead("orders", position_end=0, partitions=[0]), [(0, 0, 0)]),
    (WantedRead("orders", partitions=[]), []),
]


@pytest.mark.parametrize("accept", [media.JSON, media.MSGPACK])
@pytest.mark.parametrize(("read", "expected"), TOPIC_READS)
def test_what_is_wanted_of_a_topic_is_resolved_and_pinned(
    live_api: LiveApi, read: WantedRead, expected: list[tuple[int, int, int]], accept: str
) -> None:
    (found,) = live_api.call(PLAN_TOPICS, body=plan(read), accept=accept).reads
    assert found.identity == live_api.store.topic("orders").identity.topic_id
    assert [(each.partition, each.start, each.end) for each in found.ranges] == expected
    pins = {pin.pin_id: pin for pin in live_api.store.pins.active_offsets()}
    for each in found.ranges:
        assert (each.bounds, each.first) == (Bounds(0, 10), 0)
        assert (each.marks[0].at, each.marks[-1].at) == (each.start, each.end)
        if each.start < each.end:
            pin = pins.pop(each.pin_id)
            assert (pin.partition, pin.start, pin.end) == (
                each.partition,
                each.start,
                each.end,
            )
        else:
            assert each.pin_id == ""
    assert pins == {}


def at(segment: int, offset: int = RECORDS_START) -> int:
    return int(RecordId.from_parts(segment, offset))


LOG_READS = [
    (WantedRead("audit"), 0, 3),
    (WantedRead("audit", ReadEdge(timestamp_us=2000)), 1, 3),
    (WantedRead("audit", end=ReadEdge(position=at(1))), 0, 1),
    (WantedRead("audit", position_start=at(1), position_end=at(2)), 1, 2),
    (WantedRead("audit", since_us=3000), 2, 3),
]


@pytest.mark.parametrize(("read", "first", "stop"), LOG_READS)
def test_what_is_wanted_of_a_log_is_resolved_and_pinned(
    live_api: LiveApi, read: WantedRead, first: int, stop: int
) -> None:
    (found,) = live_api.call(PLAN_LOGS, body=plan(read)).reads
    assert found.identity == stream_name(live_api.store.log("audit").stream_id)
    (planned,) = found.ranges
    (pin,) = live_api.store.pins.active()
    assert (pin.pin_id, pin.start, pin.end) == (planned.pin_id, first, stop)
    assert planned.start == at(first)
    assert planned.bounds == Bounds(at(0), int(live_api.store.log("audit").durable_end()))


def test_nothing_is_pinned_if_no_duration_is_given(live_api: LiveApi) -> None:
    for operation, name in ((PLAN_TOPICS, "orders"), (PLAN_LOGS, "audit")):
        (found,) = live_api.call(operation, body=plan(WantedRead(name), duration_ms=0)).reads
        assert {each.pin_id for each in found.ranges} == {""}
    assert (live_api.store.pins.active(), live_api.store.pins.active_offsets()) == ([], [])


def test_nothing_is_pinned_or_created_if_something_is_missing(live_api: LiveApi) -> None:
    beyond = [PartitionEdges(3, start=ReadEdge(position=0))]
    for operation, name in ((PLAN_TOPICS, "orders"), (PLAN_LOGS, "audit")):
        with pytest.raises(NotFound, match="missing"):
            live_api.call(operation, body=plan(WantedRead(name), WantedRead("missing")))
        with pytest.raises(
            NotFound, match=rf"{name}: there is no partition 3 \(the topic or log has"
        ):
            live_api.call(operation, body=plan(WantedRead(name), WantedRead(name, edges=beyond)))
    assert (live_api.store.pins.active(), live_api.store.pins.active_offsets()) == ([], [])
    assert (live_api.store.logs(), live_api.store.topics.names()) == (["audit"], ["orders"])


WRONG = [
    {"reads": [{"name": "orders", "start": {"position": -1}}]},
    {"reads": [{"name": "orders", "start": {"timestamp_us": 1 << 63}}]},
    {"reads": [{"name": "orders", "edges": [{"partition": -1}]}]},
    {"reads": [{"name": "../orders"}]},
    {"reads": [{"name": "orders", "extra": 1}]},
    {"reads": [], "owner": ""},
    {"reads": [], "duration_ms": 8 * 24 * 3600 * 1000},
]


@pytest.mark.parametrize("path", ["topics", "logs"])
@pytest.mark.parametrize("fields", WRONG, ids=str)
def test_what_is_no_plan_is_refused(
    live_api: LiveApi, fields: dict[str, object], path: str
) -> None:
    document = {"owner": "me", "duration_ms": 1000, **fields}
    answer = live_api.ask("POST", f"/v1/plans/{path}", msgspec.json.encode(document))
    assert answer.status == 400, answer
    assert isinstance(answer.problem, InputError)
