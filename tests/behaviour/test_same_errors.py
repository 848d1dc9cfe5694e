"""Where the wire could tell another error than the engines, or do another thing: it does not."""

from __future__ import annotations

from typing import Any

import pytest

from lakebed.base.errors import BadName, InputError, NotFound
from lakebed.keratin.errors import OffsetOutOfRange
from lakebed.seglake.model import Versioning
from lakebed.stroma.config import GroupConfig

pytestmark = pytest.mark.process


@pytest.mark.parametrize("offset", [-1, 4, 1 << 63, 1 << 80])
def test_an_offset_that_cannot_be_is_out_of_range_with_its_facts(store: Any, offset: int) -> None:
    partition = store.topic("orders").partition(0)
    partition.append_batch([b"a", b"b"]).result()
    for read in (partition.read, partition.read_batches, partition.scan_from, partition.get):
        with pytest.raises(OffsetOutOfRange) as told:
            read(offset)
        assert vars(told.value) == {"offset": offset, "start_offset": 0, "high_watermark": 2}
        assert str(told.value) == f"orders-0: offset {offset} is out of range (allowed: 0 to 2)"
    with pytest.raises(OffsetOutOfRange):
        partition.read(offset, 0)


def test_messages_without_a_key_take_turns_also_for_who_opens_the_topic_each_time(
    store: Any,
) -> None:
    store.topic("orders", partitions=3)
    turns = [store.topic("orders").append_batch([b"a"]).partition for _ in range(6)]
    assert sorted(turns) == [0, 0, 1, 1, 2, 2]


def test_a_topic_that_is_not_there_cannot_be_configured(store: Any) -> None:
    with pytest.raises(NotFound, match="there is no topic orders"):
        store.topics.configure("orders", {"retention_ms": 5})
    with pytest.raises(InputError, match="retention_ms"):
        store.topics.configure("orders", {"retention_ms": "soon"})


def test_more_may_be_asked_for_than_one_call_takes(store: Any) -> None:
    topic = store.topic("orders")
    group = topic.group("g", config=GroupConfig(delivery_count_max=1))
    topic.append_batch([b"a", b"b"]).result()
    assert len(group.peek(max_messages=10_000_000)) == 2
    group.nack_all(group.lease(max_messages=10_000_000))
    assert group.lease() == []
    assert group.redrive(max_messages=1 << 40) == 2
    for wrong in (0, 10_000_001):
        with pytest.raises(InputError):
            group.lease(max_messages=wrong)
    bucket = store.bucket("photos")
    bucket.put("x", b"1")
    assert [one.key for one in bucket.list_page(max_keys=5_000).items] == ["x"]


def test_an_opened_object_stays_the_version_that_was_found(store: Any) -> None:
    bucket = store.bucket("photos", versioning=Versioning.ENABLED)
    bucket.put("x", b"first")
    opened = bucket.get("x")
    bucket.put("x", b"second")
    assert (opened.read(), opened.between(1, 3).read()) == (b"first", b"ir")
    bucket.delete("x")
    assert opened.read() == b"first"


def test_an_opened_null_version_stays_what_was_found_when_versions_follow(store: Any) -> None:
    bucket = store.bucket("photos", versioning=Versioning.DISABLED)
    bucket.put("x", b"first")
    opened = bucket.get("x")
    bucket.set_versioning(Versioning.ENABLED)
    bucket.put("x", b"second")
    assert opened.read() == b"first"


def test_a_watermark_that_cannot_be_written_is_refused(store: Any) -> None:
    log = store.log("orders")
    for wrong in (-1, 1 << 64):
        with pytest.raises(InputError):
            log.set_coordinator_watermark(wrong)
    log.set_coordinator_watermark((1 << 64) - 1)
    assert log.coordinator_watermark == (1 << 64) - 1


def test_a_manifest_log_is_that_of_a_log_and_asking_for_it_makes_none(store: Any) -> None:
    with pytest.raises(NotFound, match="there is no log orders"):
        store.manifest_log("orders")
    for wrong in ("..", "a/b", "a\0", "x" * 300):
        with pytest.raises(BadName):
            store.manifest_log(wrong)
    assert store.logs() == []
    log = store.log("orders")
    found = store.manifest_log("orders")
    assert (found.log, found.stream) == ("orders", f"{log.stream_id:016x}")
    for read in (found.reader.chunk, found.reader.snapshot):
        with pytest.raises(NotFound):
            read(99)


def test_the_keys_of_a_store_are_its_own(store: Any) -> None:
    made = store.keys.create(label="one")
    assert [one.access_key for one in store.keys.list()] == [made.info.access_key]


@pytest.mark.parametrize(
    "said", [{"content_type": "text/plain\r\nX-Evil: 1"}, {"metadata": {"a": "b\n"}}]
)
def test_what_is_kept_with_an_object_cannot_break_out_of_its_header(
    store: Any, said: dict[str, Any]
) -> None:
    with pytest.raises(InputError, match="must not contain control characters"):
        store.bucket("photos").put("figs", b"sweet", **said)
    assert [one.key for one in store.bucket("photos").list()] == []
