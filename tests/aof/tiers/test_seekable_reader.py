"""Random reads in a warm file: the right bytes, at the cost of the frames they are in."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebed.aof.format import FOOTER_BYTES
from lakebed.aof.tiers.format import SEEK_ENTRY, SeekEntry
from lakebed.aof.tiers.frames import REQUEST_BYTES_MAX, TAIL_BYTES, Frames, ReadCounters
from lakebed.aof.tiers.object_store import ObjectSource
from lakebed.aof.tiers.ranges import BytesSource, FileSource
from lakebed.aof.tiers.seek_table import SeekTable
from lakebed.aof.tiers.seekable_reader import SeekableReader
from lakebed.aof.tiers.warm_file import Compression
from lakebed.base.runner import ThreadRunner
from lakebed.base.simulation.world import World
from lakebed.base.units import KIB, MIB
from lakebed.kernels import aof_scan
from lakebed.kernels.disk import real_disk
from tests.aof.tiers.samples import CountingSource, payloads, sealed_segment, warm
from tests.fakes.object_store import FakeObjectStore

pytestmark = pytest.mark.thorough


@cache
def sample() -> tuple[bytes, bytes]:
    """A segment, and its warm file in frames of 4 KiB."""
    segment = sealed_segment(payloads(1500), size=256 * KIB)
    return segment, warm(segment)[0]


@cache
def full_segment() -> tuple[bytes, bytes]:
    """The real thing: 64 MiB, full, in frames of 128 KiB; few different records, to be quick."""
    records = payloads(20_000) * 25
    segment = sealed_segment(records, size=64 * MIB)
    return segment, warm(segment, Compression(level=1))[0]


def reader_of(
    source: BytesSource, counters: ReadCounters | None = None, *, cache_bytes_max: int = MIB
) -> SeekableReader:
    return SeekableReader(
        source,
        mutex=ThreadRunner().mutex(),
        counters=counters,
        cache_bytes_max=cache_bytes_max,
    )


@given(
    reads=st.lists(st.tuples(st.integers(-10, 300 * KIB), st.integers(0, 40 * KIB)), max_size=8),
    cache_bytes_max=st.sampled_from([0, 8 * KIB, MIB]),
)
def test_any_range_reads_as_the_segment_does(
    reads: list[tuple[int, int]], cache_bytes_max: int
) -> None:
    segment, data = sample()
    reader = reader_of(BytesSource(data), cache_bytes_max=cache_bytes_max)
    assert reader.size == len(segment)
    for offset, length in reads:
        expected = segment[max(offset, 0) : max(offset + length, 0)]
        assert reader.read(offset, length) == expected


def test_opening_takes_one_request_that_brings_the_footer_too() -> None:
    segment, data = sample()
    source = CountingSource(data)
    counters = ReadCounters()
    reader = reader_of(source, counters)
    assert reader.read(reader.size - FOOTER_BYTES, FOOTER_BYTES) == segment[-FOOTER_BYTES:]
    assert source.ranges == [range(len(data) - TAIL_BYTES, len(data))]
    assert counters.inflated_bytes.value == FOOTER_BYTES


def test_a_table_longer_than_the_guess_takes_one_more_request_for_the_rest() -> None:
    segment = sealed_segment(payloads(60_000), size=8 * MIB)
    data, facts = warm(segment, Compression(level=1, frame_bytes=4 * KIB))
    assert facts.frame_count * SEEK_ENTRY.size > TAIL_BYTES
    source = CountingSource(data)
    reader = reader_of(source)
    assert len(source.ranges) == 2
    assert source.ranges[1].stop == source.ranges[0].start, "no byte is fetched twice"
    assert reader.read(1_000_000, 100) == segment[1_000_000:1_000_100]


def test_one_record_of_a_full_segment_touches_less_than_a_hundredth_of_it() -> None:
    segment, data = full_segment()
    scan = aof_scan(segment, 64, len(segment) - FOOTER_BYTES, count_max=1 << 20)
    for number in Random(5).sample(range(len(scan.offsets)), 20):
        counters = ReadCounters()
        reader = reader_of(BytesSource(data), counters)
        offset, length = scan.offsets[number], scan.lengths[number] + 24
        assert reader.read(offset, length) == segment[offset : offset + length]
        assert counters.requests.value <= 2
        assert counters.fetched_bytes.value < len(data) / 100
        assert counters.inflated_bytes.value < len(segment) / 100


def test_neighbouring_frames_come_in_one_request() -> None:
    segment, data = sample()
    source = CountingSource(data)
    reader = reader_of(source)
    assert reader.read(20_000, 50_000) == segment[20_000:70_000]
    assert len(source.ranges) == 2


def test_only_the_frames_that_are_not_cached_are_fetched() -> None:
    segment, data = sample()
    source = CountingSource(data)
    reader = reader_of(source)
    reader.read(40_000, 1)
    assert reader.read(20_000, 50_000) == segment[20_000:70_000]
    assert len(source.ranges) == 4, "the tail, the one frame, those before it, those behind it"
    assert not set(source.ranges[1]) & {*source.ranges[2], *source.ranges[3]}
    reader.read(25_000, 30_000)
    assert len(source.ranges) == 4


def test_a_request_is_never_larger_than_the_limit() -> None:
    noise = [Random(1).randbytes(60_000) for _ in range(150)]
    segment = sealed_segment(noise, size=16 * MIB)
    data, _ = warm(segment, Compression(level=1))
    source = CountingSource(data)
    reader = reader_of(source)
    assert reader.read(0, 9_000_000) == segment[:9_000_000]
    assert max(map(len, source.ranges)) <= REQUEST_BYTES_MAX
    assert len(source.ranges) < 5


def test_the_cache_stays_within_its_bytes_and_keeps_what_was_used_last() -> None:
    _, data = sample()
    counters = ReadCounters()
    reader = reader_of(BytesSource(data), counters, cache_bytes_max=16 * KIB)
    for frame in range(20):
        reader.read(frame * 4096, 10)
    before = counters.inflated_bytes.value
    for frame in (19, 18, 17, 16):
        reader.read(frame * 4096, 10)
    assert counters.inflated_bytes.value == before
    reader.read(15 * 4096, 10)
    assert counters.inflated_bytes.value == before + 4096


def test_records_are_scanned_from_the_bytes_that_are_read() -> None:
    segment, data = sample()
    reader = reader_of(BytesSource(data))
    expected = aof_scan(segment, 64, len(segment) - FOOTER_BYTES, count_max=10_000)
    window = reader.read(64, reader.size)
    found = aof_scan(window, 0, len(window) - FOOTER_BYTES, count_max=10_000)
    assert [offset + 64 for offset in found.offsets] == list(expected.offsets)


def test_a_reader_of_an_object_fetches_ranges_of_it() -> None:
    segment, data = sample()
    world = World(1)
    store = FakeObjectStore(world.runner, Random(1))
    store.put("a/b.zst", BytesSource(data), metadata={})
    source = ObjectSource(store, "a/b.zst", size=store.head("a/b.zst").size)
    reader = SeekableReader(source, mutex=world.runner.mutex())
    assert reader.read(70_000, 1000) == segment[70_000:71_000]
    assert store.calls["get", "a/b.zst"] == 2


def test_many_threads_may_read_at_once() -> None:
    segment, data = sample()
    reader = reader_of(BytesSource(data), cache_bytes_max=20 * KIB)
    barrier = threading.Barrier(4)

    def read_many(seed: int) -> None:
        random = Random(seed)
        barrier.wait()
        for _ in range(300):
            offset, length = random.randrange(len(segment)), random.randrange(9000)
            assert reader.read(offset, length) == segment[offset : offset + length]

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(read_many, range(4)))


def test_closing_closes_the_file(tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.mktemp("warm") / "a.zst"
    path.write_bytes(sample()[1])
    file = real_disk().open(path)
    reader = SeekableReader(FileSource(file), mutex=ThreadRunner().mutex())
    reader.read(0, 10)
    reader.close()
    reader.close()
    with pytest.raises(Exception, match="closed"):
        file.size()


@given(
    sizes=st.lists(st.tuples(st.integers(1, 50), st.integers(1, 50)), min_size=1, max_size=30),
    bytes_max=st.integers(1, 120),
    data=st.data(),
)
def test_the_table_finds_frames_and_groups_them(
    sizes: list[tuple[int, int]], bytes_max: int, data: st.DataObject
) -> None:
    table = SeekTable(SeekEntry(*size) for size in sizes)
    start = data.draw(st.integers(0, table.inflated_bytes - 1))
    end = data.draw(st.integers(start + 1, table.inflated_bytes))
    frames = table.covering(start, end)
    touched = [n for n in range(table.frame_count) if _overlap(table.inflated(n), start, end)]
    assert list(frames) == touched
    runs = list(table.runs(frames, bytes_max=bytes_max))
    assert [frame for run in runs for frame in run] == touched
    for run in runs:
        length = table.compressed(run.stop - 1).stop - table.compressed(run.start).start
        assert length <= bytes_max or len(run) == 1


def _overlap(place: range, start: int, end: int) -> bool:
    return place.start < end and start < place.stop


def test_frames_can_be_streamed_without_a_cache() -> None:
    segment, data = sample()
    frames = Frames(BytesSource(data))
    assert b"".join(frames.inflate(range(frames.table.frame_count))) == segment
