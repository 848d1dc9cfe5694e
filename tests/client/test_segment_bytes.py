"""Bytes of segments over the wire: as they stand in the files, whole and in part."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lakebed.aof.view import LogDescription
from lakebed.base.errors import NotFound
from lakebed.client.address import Address
from lakebed.client.errors import BadAnswer
from lakebed.client.store import RemoteStore
from lakebed.seglake.errors import BadRange
from tests.client.scripted import answer, document, says, scripted
from tests.http_api.live_api import HOST, LiveApi

VALUES = [b"%d" % number * 100 for number in range(30)]


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
    with pytest.raises(BadRange, match=f"byte {size + 1} is behind the {size} there are") as told:
        segment_bytes(first, offset=size + 1)
    assert told.value.size == size


def test_a_segment_that_is_not_there_is_not_found(stored: Any) -> None:
    segment_bytes, (_, second), _ = stored
    with pytest.raises(NotFound, match="there is no segment"):
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
    opened = document(
        LogDescription(
            name="orders", stream_id=0, durable_end=0, coordinator_watermark=0, segments=0
        )
    )
    data = answer(b"abc", "application/octet-stream", headers=[f"Lakebed-Size: {size}"])
    with (
        scripted(says(opened), says(data)) as server,
        RemoteStore(Address(host=HOST, port=server.port), retry_s=0) as store,
        pytest.raises(BadAnswer, match=r"Lakebed-Size|more bytes than the segment"),
    ):
        store.log("orders").segment_bytes(0)
