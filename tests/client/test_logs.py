"""Logs: the same embedded, over the socket and over TCP."""

from __future__ import annotations

import itertools
import threading
from typing import Any

import pytest

from lakebed.aof.record_batch import Record
from lakebed.aof.record_id import RecordId
from lakebed.base.errors import Closed, InputError, NotFound
from lakebed.client.store import RemoteStore
from tests.client.scripted import GIVE_UP_S


def test_records_are_appended_flushed_and_read(store: Any) -> None:
    log = store.log("orders")
    assert store.logs() == ["orders"]
    first = log.append_record(b"a", ext_id=7, timestamp=100)
    others = log.append_records([b"b", bytearray(b"c")], ext_ids=[8, 9], timestamps=[200, 300])
    last = log.append_record_with_timeout(b"d", 5.0, timestamp=400)
    log.flush(last)
    log.flush(timeout=30.0)
    expected = [
        Record(first, 100, 7, b"a"),
        Record(others[0], 200, 8, b"b"),
        Record(others[1], 300, 9, b"c"),
        Record(last, 400, 0, b"d"),
    ]
    assert list(log.read()) == expected
    assert all(isinstance(record.record_id, RecordId) for record in log.read())
    assert list(log.read(others[0])) == expected[1:]
    assert list(log.read(first, last)) == expected[:3]
    assert list(log.read_backward()) == expected[::-1]
    assert list(log.read_backward(last)) == expected[2::-1]
    assert [list(batch) for batch in log.read_batches()] == [expected]
    assert log.get(last) == expected[-1]
    assert log.seek_timestamp(200) == others[0]
    assert log.seek_timestamp(10_000) == log.durable_end()
    with pytest.raises(NotFound):
        log.get(log.durable_end())
    with pytest.raises(NotFound):
        log.get(RecordId(first + 8))
    with pytest.raises(NotFound):
        list(log.read(RecordId.from_parts(9, 64)))


def test_what_is_wrong_with_an_append_is_raised(store: Any) -> None:
    log = store.log("orders")
    with pytest.raises(InputError):
        log.append_records([b"a", b""])
    with pytest.raises(InputError):
        log.append_records([b"a"], ext_ids=[1, 2])
    with pytest.raises(InputError):
        log.append_record(b"a", ext_id=-1)
    assert list(log.read()) == []


def test_segments_are_sealed_and_told(store: Any) -> None:
    log = store.log("orders")
    assert log.seal_current_segment() is None
    log.flush(log.append_record(b"a"))
    sealed = log.seal_current_segment(timeout=30.0)
    assert sealed is not None
    assert (sealed.segment_id, sealed.is_sealed) == (0, True)
    log.flush(log.append_record(b"b"))
    found = log.segments()
    assert [(one.segment_id, one.is_sealed, one.tier) for one in found] == [
        (0, True, 0),
        (1, False, 0),
    ]
    assert [one.segment_id for one in log.tiers.residency()] == [0, 1]
    batches = list(log.read_batches())
    assert [batch.segment_id for batch in batches] == [0, 1]
    assert [batch.base_offset for batch in batches] == [one.base_offset for one in found]
    assert [next(iter(batch)).payload for batch in batches] == [b"a", b"b"]
    assert batches[0].start == next(iter(log.read())).record_id
    assert log.coordinator_watermark == 0
    log.set_coordinator_watermark(5)
    log.set_coordinator_watermark(3)
    assert log.coordinator_watermark == 5


def test_a_follower_waits_for_more(store: Any) -> None:
    log = store.log("orders")
    log.flush(log.append_record(b"a"))
    follower = log.follow()
    assert next(follower).payload == b"a"
    assert follower.next_batch(0) is None

    def append() -> None:
        log.seal_current_segment()
        log.flush(log.append_records([b"b", b"c"])[-1])

    appended = threading.Thread(target=append)
    appended.start()
    assert [next(follower).payload for _ in range(2)] == [b"b", b"c"]
    appended.join()
    position = follower.position
    log.flush(log.append_record(b"d"))
    with log.follow(position) as other:
        assert next(other).payload == b"d"
    reader = threading.Thread(target=lambda: list(follower))
    reader.start()
    follower.close()
    reader.join(GIVE_UP_S)
    assert not reader.is_alive()
    with pytest.raises(Closed):
        follower.next_batch(0)


def test_waiting_for_the_durable_end(store: Any) -> None:
    log = store.log("orders")
    end = log.durable_end()
    assert log.wait_beyond(end, 0) is False
    assert log.wait_beyond(end, 0.01) is False
    appended = threading.Thread(target=lambda: log.flush(log.append_record(b"a")))
    appended.start()
    assert log.wait_beyond(end, GIVE_UP_S) is True
    appended.join()
    assert log.wait_beyond(end, 0) is True


def test_many_pages_are_read_one_after_the_other(remote: RemoteStore) -> None:
    log = remote.log("orders")
    ids: list[RecordId] = []
    for number in range(6):
        ids += log.append_records([b"%d" % number * 500_000] * 3)
        if number % 2:
            log.seal_current_segment()
    log.flush()
    assert [record.record_id for record in log.read()] == ids
    assert [record.record_id for record in log.read_backward()] == ids[::-1]
    batches = list(log.read_batches())
    assert [one for batch in batches for one in batch.record_ids()] == ids
    for batch, following in itertools.pairwise(batches):
        assert batch.start < batch.end <= following.start
    assert [record.record_id for record in log.read(ids[4], ids[11])] == ids[4:11]


def test_what_comes_behind_the_end_of_a_read_is_not_of_it(store: Any) -> None:
    log = store.log("orders")
    log.flush(log.append_record(b"a"))
    found = log.read()
    log.flush(log.append_record(b"b"))
    assert [record.payload for record in found] == [b"a"]
