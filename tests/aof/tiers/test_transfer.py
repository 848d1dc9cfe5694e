"""Warm files to Tier 2 and back: what is damaged on the way gets no name."""

from __future__ import annotations

from random import Random

import pytest

from lakebed.aof.tiers.errors import Cancelled, Missing, Transient, Unavailable
from lakebed.aof.tiers.frames import ReadCounters
from lakebed.aof.tiers.object_store import ANSWERS_MAX, ObjectSource, ObjectStore
from lakebed.aof.tiers.ranges import BytesSource
from lakebed.aof.tiers.seekable_reader import SeekableReader
from lakebed.aof.tiers.transfer import CRC64, download_to, segment_metadata, upload_file
from lakebed.aof.tiers.warm_file import compress_segment, decompress_to
from lakebed.base.errors import Corrupt, NotFound
from lakebed.base.runner import ThreadRunner
from lakebed.base.simulation.disk import SimulatedDisk
from lakebed.base.simulation.world import World
from lakebed.kernels import crc64nvme
from tests.aof.tiers.samples import FOLDER, SEGMENT, WARM, content, disk_with, sealed_segment
from tests.fakes.object_store import FakeObjectStore, Trouble

KEY = "aof2/ff/segment-7-1.zst"
BACK = f"{FOLDER}/back.zst"


def uploaded(store: ObjectStore) -> SimulatedDisk:
    disk = disk_with(sealed_segment())
    facts = compress_segment(disk, SEGMENT, WARM)
    upload_file(store, KEY, disk, WARM, crc64=facts.crc64, metadata=segment_metadata(facts))
    return disk


@pytest.fixture
def fake() -> FakeObjectStore:
    return FakeObjectStore(World(1).runner, Random(1))


def test_a_segment_comes_back_from_any_store(store: ObjectStore) -> None:
    disk = uploaded(store)
    info = download_to(store, KEY, disk, BACK)
    assert content(disk, BACK) == content(disk, WARM)
    assert info.metadata is not None
    assert info.metadata["record-count"] == "250"
    assert info.metadata["segment-id"] == "7"
    decompress_to(ObjectSource(store, KEY, size=info.size), disk, f"{FOLDER}/b.seg")
    assert content(disk, f"{FOLDER}/b.seg") == content(disk, SEGMENT)


def test_one_record_is_read_from_any_store_without_the_rest(store: ObjectStore) -> None:
    segment = sealed_segment([Random(n).randbytes(1000) for n in range(3000)], size=4 << 20)
    disk = disk_with(segment)
    facts = compress_segment(disk, SEGMENT, WARM)
    upload_file(store, KEY, disk, WARM, crc64=facts.crc64, metadata=segment_metadata(facts))
    counters = ReadCounters()
    source = ObjectSource(store, KEY, size=store.head(KEY).size)
    reader = SeekableReader(source, mutex=ThreadRunner().mutex(), counters=counters)
    assert reader.read(64 + 1024 * 1500, 1024) == segment[64 + 1024 * 1500 :][:1024]
    assert counters.requests.value == 2
    assert counters.fetched_bytes.value < 150_000 < len(segment) / 20


def test_a_file_that_rotted_is_not_uploaded(fake: FakeObjectStore) -> None:
    disk = disk_with(sealed_segment())
    facts = compress_segment(disk, SEGMENT, WARM)
    disk.flip_bit(WARM, offset=100)
    with pytest.raises(Corrupt, match="the bytes do not match their recorded checksum"):
        upload_file(fake, KEY, disk, WARM, crc64=facts.crc64, metadata={})
    assert not fake.objects


def test_a_file_that_is_gone_is_not_uploaded(fake: FakeObjectStore) -> None:
    with pytest.raises(NotFound):
        upload_file(fake, KEY, disk_with(b""), WARM, crc64=0, metadata={})
    assert not fake.calls


@pytest.mark.parametrize("kind", [Trouble.CORRUPTED, Trouble.TRUNCATED, Trouble.UNAVAILABLE])
def test_what_is_damaged_on_the_way_gets_no_name_and_may_be_fetched_again(
    fake: FakeObjectStore, kind: Trouble
) -> None:
    disk = uploaded(fake)
    fake.plan("get", *[kind] * (ANSWERS_MAX if kind is Trouble.TRUNCATED else 1))
    with pytest.raises((Corrupt, Transient, Unavailable)):
        download_to(fake, KEY, disk, BACK)
    assert disk.names(FOLDER) == ["a.seg", "a.zst"]
    download_to(fake, KEY, disk, BACK)
    assert content(disk, BACK) == content(disk, WARM)


def test_an_object_that_rotted_is_refused(fake: FakeObjectStore) -> None:
    disk = uploaded(fake)
    fake.flip_bit(KEY, offset=200)
    with pytest.raises(Corrupt):
        download_to(fake, KEY, disk, BACK)
    assert disk.names(FOLDER) == ["a.seg", "a.zst"]


def test_an_object_without_a_checksum_is_refused(fake: FakeObjectStore) -> None:
    fake.put(KEY, BytesSource(b"whatever"), metadata={"other": "1"})
    disk = disk_with(b"")
    with pytest.raises(Corrupt, match="expected none"):
        download_to(fake, KEY, disk, BACK)
    assert CRC64 not in (fake.head(KEY).metadata or {})


def test_an_object_that_is_gone_is_missing(fake: FakeObjectStore) -> None:
    disk = uploaded(fake)
    fake.lose(KEY)
    with pytest.raises(Missing):
        download_to(fake, KEY, disk, BACK)


def test_a_download_stops_when_it_is_told_to(fake: FakeObjectStore) -> None:
    disk = uploaded(fake)
    with pytest.raises(Cancelled):
        download_to(fake, KEY, disk, BACK, should_stop=lambda: True)
    assert disk.names(FOLDER) == ["a.seg", "a.zst"]


@pytest.mark.parametrize("pieces", range(3))
def test_an_upload_stops_between_two_pieces_when_it_is_told_to(
    store: ObjectStore, pieces: int
) -> None:
    """Two are read to check it, the next to send it."""
    disk = disk_with(b"")
    data = Random(1).randbytes(2 << 20)
    with disk.create(WARM) as file:
        file.pwrite(0, data)
        file.sync()
    asked = iter([False] * pieces)
    crc64, stop = crc64nvme(data), lambda: next(asked, True)
    with pytest.raises(Cancelled):
        upload_file(store, KEY, disk, WARM, crc64=crc64, metadata={}, should_stop=stop)
    with pytest.raises(Missing):
        store.head(KEY)
    upload_file(store, KEY, disk, WARM, crc64=crc64, metadata={})
    assert store.head(KEY).size == len(data)
