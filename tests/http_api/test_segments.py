"""Segments as they are stored, fetched through the API and decoded by the engines' own readers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from lakebed.aof.record_batch import RecordBatch
from lakebed.aof.record_id import SEGMENT_OFFSET_MAX
from lakebed.aof.segment_reader import RuntimeSegment
from lakebed.aof.tiers.ranges import BytesSource
from lakebed.aof.tiers.seekable_reader import SeekableReader
from lakebed.aof.view import SegmentInfo
from lakebed.api import logs, media, pins, topics
from lakebed.api.topics import Produce
from lakebed.base.errors import Busy, Corrupt, InputError, NotFound
from lakebed.base.files.windows import Window
from lakebed.base.units import KIB, MIB
from lakebed.keratin.compaction_pass import compact
from lakebed.keratin.config import TopicConfig
from lakebed.keratin.format import RECORDS_START
from lakebed.keratin.log_bytes import LogBytes, open_log
from lakebed.keratin.partition import Partition
from lakebed.keratin.view import PartitionSegment
from lakebed.kernels import Stop
from lakebed.seglake.errors import BadRange
from tests.http_api.live_api import Answer, LiveApi, open_api, target_of
from tests.http_api.log_apis import ORDERS, SMALL, append, fill, read_all

PAGES = TopicConfig(segment_bytes=64 * KIB, index_stride_bytes=4 * KIB)
CLICKS = {"topic": "clicks", "partition": 0}


@pytest.fixture
def live_api(tmp_path: Path) -> Iterator[LiveApi]:
    with open_api(tmp_path, config=SMALL, topic_config=PAGES) as live_api:
        live_api.call(logs.OPEN_LOG, ORDERS)
        yield live_api


class Fetched:
    """A `ByteSource` of bytes that came over the wire."""

    def __init__(self, data: bytes) -> None:
        self._whole = Window(memoryview(data), 0)
        self.size = len(data)

    def window(self, start: int, end: int) -> Window:
        return self._whole

    def close(self) -> None:
        """Nothing to let go of."""


def fetch(live_api: LiveApi, segment: int, **query: object) -> Answer:
    names = {**ORDERS, "segment": segment}
    answer = live_api.ask("GET", target_of(logs.LOG_SEGMENT_BYTES, names, query))
    if answer.status != 200:
        raise answer.problem
    assert answer.headers["content-type"] == media.BYTES
    return answer


def fetch_in_parts(live_api: LiveApi, segment: SegmentInfo, part_bytes: int) -> bytes:
    """As a task does that was told where the segment is, and how long."""
    assert segment.size is not None
    parts = [
        fetch(
            live_api, segment.segment_id, offset=offset, length=part_bytes, tier=segment.tier
        ).body
        for offset in range(0, segment.size, part_bytes)
    ]
    return b"".join(parts)


def decoded(live_api: LiveApi, segment: SegmentInfo, data: bytes, end: int) -> list[bytes]:
    """By the engine's readers, with nothing but the bytes and the list's facts."""
    if segment.tier:
        reader = SeekableReader(BytesSource(data), mutex=live_api.store.runner.mutex())
        data = reader.read(0, reader.size)
    if not segment.is_sealed:
        data += bytes(64 * KIB - len(data))  # what was not handed out
    reading = RuntimeSegment(segment, Fetched(data))
    if segment.is_sealed:
        assert reading.defects() == [], "header and footer came along"
        assert reading.records_end == end
    found = reading.scan(64, end, bytes_max=SEGMENT_OFFSET_MAX)
    assert isinstance(found, RecordBatch)
    assert found.end.segment_offset == end
    return [bytes(payload) for payload in found.payloads()]


def test_what_is_fetched_of_any_tier_decodes_to_what_is_read(live_api: LiveApi) -> None:
    stored = fill(live_api, 3)
    stored += [b"active"]
    append(live_api, b"active")
    tiers = live_api.store.log("orders").tiers
    tiers.upload([0, 1])
    tiers.evict([0])
    tiers.evict([1], warm=True)
    listed = live_api.call(logs.LOG_SEGMENTS, ORDERS)
    assert [one.tier for one in listed.segments] == [1, 2, 0, 0]
    assert [one.is_sealed for one in listed.segments] == [True, True, True, False]
    found: list[bytes] = []
    for segment in listed.segments:
        whole = fetch(live_api, segment.segment_id)
        assert whole.headers["lakebed-tier"] == str(segment.tier)
        assert whole.headers["lakebed-sealed"] == str(segment.is_sealed).lower()
        assert int(whole.headers["lakebed-size"]) == segment.size == len(whole.body)
        assert fetch_in_parts(live_api, segment, 777) == whole.body
        end = segment.end or listed.durable_end & SEGMENT_OFFSET_MAX
        found += decoded(live_api, segment, whole.body, end)
    assert found == stored == read_all(live_api)


def test_of_the_segment_that_is_written_nothing_is_given_behind_the_durable_end(
    live_api: LiveApi,
) -> None:
    log = live_api.store.log("orders")
    stored: list[bytes] = []
    fetched = b""
    for number in range(20):
        payload = b"%d" % number * 100
        stored.append(payload)
        append(live_api, payload)
        log.append_record(b"not durable yet")
        end = log.durable_end().segment_offset
        fetched += fetch(live_api, 0, offset=len(fetched), tier=0).body
        assert len(fetched) in (end, log.durable_end().segment_offset)
        log.flush()
        stored.append(b"not durable yet")
    fetched += fetch(live_api, 0, offset=len(fetched)).body
    (segment,) = live_api.call(logs.LOG_SEGMENTS, ORDERS).segments
    assert segment.size == len(fetched) == log.durable_end().segment_offset
    assert decoded(live_api, segment, fetched, len(fetched)) == stored
    live_api.call(logs.SEAL_LOG, ORDERS)
    sealed = fetch(live_api, 0)
    assert sealed.body.startswith(fetched), "sealing changes nothing that was handed out"
    assert len(sealed.body) == 64 * KIB


def test_a_range_is_cut_to_what_there_is(live_api: LiveApi) -> None:
    append(live_api, b"a" * 100)
    size = live_api.store.log("orders").durable_end().segment_offset
    whole = fetch(live_api, 0).body
    assert len(whole) == size
    assert fetch(live_api, 0, offset=10, length=20).body == whole[10:30]
    assert fetch(live_api, 0, offset=10, length=1 << 62).body == whole[10:]
    assert fetch(live_api, 0, offset=size).body == b"", "more may come"
    with pytest.raises(BadRange):
        fetch(live_api, 0, offset=size + 1)
    for wrong in ({"offset": -1}, {"length": 0}, {"length": -1}, {"tier": "x"}, {"ofset": 1}):
        with pytest.raises(InputError):
            fetch(live_api, 0, **wrong)
    head = live_api.ask("HEAD", target_of(logs.LOG_SEGMENT_BYTES, {**ORDERS, "segment": 0}))
    assert (head.status, head.body, head.headers["content-length"]) == (200, b"", str(size))


def test_a_segment_that_moved_is_told_where_it_is(live_api: LiveApi) -> None:
    fill(live_api, 1)
    tiers = live_api.store.log("orders").tiers
    tiers.upload([0])
    for evict_warm, tier in ((False, 1), (True, 2)):
        tiers.evict([0], warm=evict_warm)
        with pytest.raises(NotFound, match=f"in Tier {tier} now, not in Tier 0"):
            fetch(live_api, 0, tier=0)
        assert fetch(live_api, 0).headers["lakebed-tier"] == str(tier)
    tiers.hydrate([0])
    with pytest.raises(NotFound, match="in Tier 0 now, not in Tier 2"):
        fetch(live_api, 0, tier=2)
    for missing in (1, 10**19):
        with pytest.raises(NotFound, match="does not exist"):
            fetch(live_api, missing)
    for wrong in ("x", "-1", "1" * 30):
        answer = live_api.ask("GET", f"/v1/logs/orders/segments/{wrong}/bytes")
        assert answer.status == 400


@pytest.mark.parametrize("tier", range(3))
def test_a_segment_whose_file_or_object_is_missing_is_damage(live_api: LiveApi, tier: int) -> None:
    fill(live_api, 1)
    log = live_api.store.log("orders")
    if tier:
        log.tiers.upload([0])
        log.tiers.evict([0], warm=tier == 2)
    (segment, *_) = live_api.call(logs.LOG_SEGMENTS, ORDERS).segments
    assert segment.tier == tier
    assert fetch(live_api, 0).body
    if tier == 2:
        assert log.cold is not None
        log.cold.store.delete(segment.path)
    else:
        Path(segment.path).unlink()
    with pytest.raises(Corrupt, match="of segment 0 is missing"):
        fetch(live_api, 0)


def test_a_pinned_segment_is_not_evicted_while_it_is_fetched(live_api: LiveApi) -> None:
    fill(live_api, 1)
    tiers = live_api.store.log("orders").tiers
    tiers.upload([0])
    pin = live_api.call(pins.CREATE_PIN, body=pins.NewPin(0, 1, 60_000, "a task", log="orders"))
    with pytest.raises(Busy):
        tiers.evict([0])
    assert fetch(live_api, 0, tier=0).status == 200
    live_api.call(pins.RELEASE_PIN, {"pin": pin.pin_id})
    assert tiers.evict([0]) == [0]


def test_a_file_that_is_removed_while_it_is_sent_is_sent_whole(tmp_path: Path) -> None:
    config = SMALL.__class__(segment_bytes=8 * MIB)
    with open_api(tmp_path, config=config) as live_api:
        live_api.call(logs.OPEN_LOG, ORDERS)
        append(live_api, *[bytes([number]) * MIB for number in range(1, 7)])
        live_api.call(logs.SEAL_LOG, ORDERS)
        expected = fetch(live_api, 0).body
        tiers = live_api.store.log("orders").tiers
        tiers.upload([0])
        connection = live_api.connect()
        connection.request("GET", target_of(logs.LOG_SEGMENT_BYTES, {**ORDERS, "segment": 0}))
        response = connection.getresponse()
        start = response.read(1000)
        tiers.evict([0], warm=True)
        assert live_api.call(logs.LOG_SEGMENTS, ORDERS).segments[0].tier == 2
        assert start + response.read() == expected
        connection.close()


# Topics.


def produce(live_api: LiveApi, count: int, *, key: bytes = b"k") -> None:
    values: list[bytes | None] = [b"%d" % number * 100 for number in range(count)]
    keys: list[bytes | None] = [key] * count
    live_api.call(topics.PRODUCE, {"topic": "clicks"}, body=Produce(values, keys, partition=0))


def fetch_topic(live_api: LiveApi, base_offset: int, **query: object) -> Answer:
    names = {**CLICKS, "base_offset": base_offset}
    answer = live_api.ask("GET", target_of(topics.TOPIC_SEGMENT_BYTES, names, query))
    if answer.status != 200:
        raise answer.problem
    return answer


def offsets_in(segment: PartitionSegment, data: bytes) -> list[int]:
    assert len(data) == segment.end
    log = LogBytes(Fetched(data), path="fetched", base_offset=segment.base_offset)
    assert log.header().base_offset == segment.base_offset
    found: list[int] = []
    position = RECORDS_START
    while position < segment.end:
        run = log.scan(position, segment.end, bytes_max=64 * MIB)
        assert not isinstance(run, Stop)
        found += run.offsets
        position = run.end
    return found


def test_a_partitions_segments_decode_to_what_is_fetched(live_api: LiveApi) -> None:
    live_api.call(topics.ENSURE_TOPIC, {"topic": "clicks"})
    produce(live_api, 30)
    live_api.call(topics.SEAL_PARTITION, CLICKS)
    produce(live_api, 7)
    listed = live_api.call(topics.TOPIC_SEGMENTS, CLICKS)
    assert (listed.start_offset, listed.high_watermark) == (0, 37)
    assert [(one.base_offset, one.next_offset) for one in listed.segments] == [(0, 30), (30, 37)]
    assert [one.is_sealed for one in listed.segments] == [True, False]
    found: list[int] = []
    for segment in listed.segments:
        whole = fetch_topic(live_api, segment.base_offset, generation=0)
        parts = [
            fetch_topic(live_api, segment.base_offset, offset=offset, length=500).body
            for offset in range(0, segment.end, 500)
        ]
        assert b"".join(parts) == whole.body
        assert whole.headers["lakebed-generation"] == "0"
        found += offsets_in(segment, whole.body)
    assert found == list(range(37))


def test_a_segment_that_was_replaced_by_a_smaller_one_is_another_generation(
    live_api: LiveApi,
) -> None:
    live_api.call(topics.ENSURE_TOPIC, {"topic": "clicks"})
    produce(live_api, 50)
    live_api.call(topics.SEAL_PARTITION, CLICKS)
    before = live_api.call(topics.TOPIC_SEGMENTS, CLICKS).segments[0]
    partition = live_api.store.topic("clicks").partition(0)
    partition._upkeep.compact()
    after = live_api.call(topics.TOPIC_SEGMENTS, CLICKS).segments[0]
    assert after.generation == before.generation + 1
    assert after.end < before.end
    with pytest.raises(NotFound, match="its generation is 1 now, not 0"):
        fetch_topic(live_api, 0, generation=0)
    answer = fetch_topic(live_api, 0, generation=1)
    assert offsets_in(after, answer.body) == [49]
    assert answer.headers["lakebed-generation"] == "1"


def sealed_partition(live_api: LiveApi) -> Partition:
    live_api.call(topics.ENSURE_TOPIC, {"topic": "clicks"})
    produce(live_api, 50)
    live_api.call(topics.SEAL_PARTITION, CLICKS)
    return live_api.store.topic("clicks").partition(0)


def test_a_file_replaced_before_the_partition_says_so_is_not_given_for_the_old_one(
    live_api: LiveApi,
) -> None:
    partition = sealed_partition(live_api)
    replaced = compact(
        partition.disk,
        partition.paths,
        partition.segments()[:1],
        now_ms=0,
        tombstone_ms=0,
        index_stride_bytes=4 * KIB,
    )
    rewritten = next(replaced)
    with pytest.raises(Busy, match="compaction is replacing"):
        fetch_topic(live_api, 0, generation=0)
    partition.exchange(rewritten)
    assert offsets_in(rewritten.info, fetch_topic(live_api, 0, generation=1).body) == [49]


@pytest.mark.parametrize("size", [0, 10, 1000, -1])
def test_a_file_that_is_cut_short_is_damage(live_api: LiveApi, size: int) -> None:
    partition = sealed_partition(live_api)
    path = Path(partition.segments()[0].path)
    path.write_bytes(path.read_bytes()[:size])
    with pytest.raises(Corrupt, match="the segment is cut short"):
        fetch_topic(live_api, 0, generation=0)


def test_a_file_cut_between_two_records_is_damage(live_api: LiveApi) -> None:
    partition = sealed_partition(live_api)
    info = partition.segments()[0]
    with closing(open_log(partition.disk, info.path, base_offset=0, is_sealed=True)) as log:
        run = log.scan(RECORDS_START, info.end, bytes_max=MIB, count_max=49)
    assert not isinstance(run, Stop)
    path = Path(info.path)
    path.write_bytes(path.read_bytes()[: run.end])
    with pytest.raises(Corrupt, match="the segment is cut short"):
        fetch_topic(live_api, 0)


def test_of_a_file_with_bytes_after_its_records_only_the_records_are_given(
    live_api: LiveApi,
) -> None:
    info = sealed_partition(live_api).segments()[0]
    path = Path(info.path)
    whole = path.read_bytes()
    path.write_bytes(whole + b"more")
    assert fetch_topic(live_api, 0, generation=0).body == whole


def test_a_missing_file_of_a_partition_is_damage(live_api: LiveApi) -> None:
    Path(sealed_partition(live_api).segments()[0].path).unlink()
    with pytest.raises(Corrupt, match="the file of the segment is missing"):
        fetch_topic(live_api, 0)


def test_what_is_no_segment_of_a_topic_is_not_found(live_api: LiveApi) -> None:
    live_api.call(topics.ENSURE_TOPIC, {"topic": "clicks"})
    produce(live_api, 3)
    for names in ({"topic": "missing", "partition": 0}, {"topic": "clicks", "partition": 9}):
        with pytest.raises(NotFound):
            live_api.call(topics.TOPIC_SEGMENTS, names)
    with pytest.raises(NotFound):
        fetch_topic(live_api, 1)
    end = live_api.call(topics.TOPIC_SEGMENTS, CLICKS).segments[0].end
    assert fetch_topic(live_api, 0, offset=end).body == b""
    with pytest.raises(BadRange):
        fetch_topic(live_api, 0, offset=end + 1)
    assert "missing" not in live_api.call(topics.LIST_TOPICS).topics
