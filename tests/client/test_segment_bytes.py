"""Bytes of segments over the wire: as they stand in the files, whole and in part."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lakebed.aof.view import LogDescription
from lakebed.base.errors import Busy, NotFound
from lakebed.client import caller, segment_range
from lakebed.client.address import Address
from lakebed.client.errors import BadAnswer
from lakebed.client.segment_range import PART_BYTES
from lakebed.client.store import RemoteStore
from lakebed.seglake.errors import BadRange
from tests.client.scripted import Act, answer, document, problem, says, scripted
from tests.http_api.live_api import HOST, LiveApi

VALUES = [b"%d" % number * 100 for number in range(30)]
OPENED = document(
    LogDescription(name="orders", stream_id=0, durable_end=0, coordinator_watermark=0, segments=0)
)


@pytest.fixture(params=["log", "partition"])
def stored(request: pytest.FixtureRequest, live_api: LiveApi, remote: RemoteStore) -> Any:
    """Two segments, the first of them sealed: how bytes are asked for, how that one and the next
    are called, and what its file has."""
    own: Any
    if request.param == "log":
        served: Any = remote.log("orders")
        served.flush(served.append_records(VALUES)[-1])
        served.seal_current_segment(timeout=30.0)
        served.flush(served.append_record(b"active"))
        own = live_api.store.log("orders")
    else:
        served = remote.topic("orders").partition(0)
        served.append_batch(VALUES).result()
        served.seal()
        served.append_batch([b"active"]).result()
        own = live_api.store.topic("orders").partition(0)
    first, second = own.segments()
    is_log = request.param == "log"
    names = [one.segment_id if is_log else one.base_offset for one in (first, second)]
    return served.segment_bytes, names, (Path(first.path), Path(second.path))


def test_a_whole_segment_is_its_file(stored: Any) -> None:
    segment_bytes, (first, _), (file, _) = stored
    found = segment_bytes(first)
    assert (bytes(found.data), found.size) == (file.read_bytes(), file.stat().st_size)
    assert found.data.readonly


def test_a_range_is_cut_at_the_end_and_empty_behind_the_last_byte(stored: Any) -> None:
    segment_bytes, (first, _), (file, _) = stored
    whole = file.read_bytes()
    assert segment_bytes(first, offset=10, length=20) == (whole[10:30], len(whole))
    assert segment_bytes(first, offset=len(whole) - 5, length=20).data == whole[-5:]
    assert segment_bytes(first, offset=len(whole), length=20) == (b"", len(whole))


def test_of_the_segment_that_is_written_there_is_what_is_durable(stored: Any) -> None:
    segment_bytes, (_, second), (_, file) = stored
    found = segment_bytes(second)
    assert 0 < found.size == len(found.data)
    assert bytes(found.data) == file.read_bytes()[: found.size]
    assert b"active" in bytes(found.data)


def test_a_range_behind_the_end_is_refused(stored: Any) -> None:
    segment_bytes, (first, _), (file, _) = stored
    size = file.stat().st_size
    with pytest.raises(
        BadRange, match=rf"offset {size + 1} is after the end \({size} bytes\)"
    ) as told:
        segment_bytes(first, offset=size + 1)
    assert told.value.size == size


def test_a_segment_that_is_not_there_is_not_found(stored: Any) -> None:
    segment_bytes, (_, second), _ = stored
    with pytest.raises(NotFound, match=r"does not exist|no segment begins"):
        segment_bytes(second + 1)


def test_a_segment_of_another_place_or_generation_is_not_found(remote: RemoteStore) -> None:
    log, partition = remote.log("orders"), remote.topic("orders").partition(0)
    log.flush(log.append_record(b"a"))
    partition.append_batch([b"a"]).result()
    with pytest.raises(NotFound, match="in Tier 0 now, not in Tier 2"):
        log.segment_bytes(0, tier=2)
    with pytest.raises(NotFound, match="its generation is"):
        partition.segment_bytes(0, generation=7)


@pytest.mark.parametrize("size", ["", "x", "2", "9" * 21])
def test_an_answer_that_does_not_tell_the_size_or_a_wrong_one_is_none(size: str) -> None:
    data = answer(b"abc", "application/octet-stream", headers=[f"Lakebed-Size: {size}"])
    with (
        scripted(says(OPENED), says(data)) as server,
        RemoteStore(Address(host=HOST, port=server.port), retry_s=0) as store,
        pytest.raises(BadAnswer, match=r"Lakebed-Size|more bytes than the file"),
    ):
        store.log("orders").segment_bytes(0)


def test_a_long_range_is_fetched_in_parts(stored: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    segment_bytes, (first, second), (file, _) = stored
    active, whole = segment_bytes(second), file.read_bytes()
    size = len(whole)
    for module, name in ((segment_range, "PART_BYTES"), (caller, "ANSWER_BYTES_MAX")):
        monkeypatch.setattr(module, name, size // 3)
    found = segment_bytes(first)
    assert (bytes(found.data), found.size) == (whole, size)
    assert found.data.readonly
    assert segment_bytes(first, offset=10, length=size // 2) == (whole[10 : 10 + size // 2], size)
    assert segment_bytes(first, offset=size // 2, length=size).data == whole[size // 2 :]
    monkeypatch.setattr(segment_range, "PART_BYTES", active.size // 2)
    assert segment_bytes(second) == active


def part(data: bytes, *, tier: int = 0) -> Act:
    """A response with some of the bytes of a segment of 5 bytes."""
    headers = ["Lakebed-Size: 5", f"Lakebed-Tier: {tier}"]
    return says(answer(data, "application/octet-stream", headers=headers))


MOVED = says(problem(NotFound("orders: segment 0 is in Tier 1 now, not in Tier 0")))


def fetched(*acts: Act, tier: int | None = None) -> tuple[bytes, list[str]]:
    """The bytes of segment 0 from a server that responds with `acts`, and the queries that it
    got."""
    with (
        scripted(says(OPENED), *acts) as server,
        RemoteStore(Address(host=HOST, port=server.port), retry_s=0) as store,
    ):
        data = bytes(store.log("orders").segment_bytes(0, tier=tier).data)
        return data, [seen.line.split("?")[1].split()[0] for seen in server.seen[1:]]


def test_all_parts_are_of_the_same_copy() -> None:
    data, queries = fetched(part(b"abc"), MOVED, part(b"12", tier=1), part(b"345", tier=1))
    assert data == b"12345"
    assert queries == [
        f"length={PART_BYTES}",
        "offset=3&length=2&tier=0",
        f"length={PART_BYTES}",
        "offset=2&length=3&tier=1",
    ]


def test_a_copy_that_moves_away_during_the_read_is_not_found_if_it_was_asked_for() -> None:
    with pytest.raises(NotFound, match="in Tier 1 now"):
        fetched(part(b"abc"), MOVED, tier=0)


def test_a_segment_that_keeps_moving_is_busy() -> None:
    with pytest.raises(Busy, match="the segment moves"):
        fetched(*[part(b"abc"), MOVED] * 3)


@pytest.mark.parametrize("data", [b"", b"d"])
def test_a_part_of_the_wrong_size_is_no_answer(data: bytes) -> None:
    with pytest.raises(BadAnswer, match="bytes, not 2"):
        fetched(part(b"abc"), part(data))
