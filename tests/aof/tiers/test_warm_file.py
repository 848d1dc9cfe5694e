"""The warm file of a segment: what is restored is the segment, byte for byte, or nothing is."""

from __future__ import annotations

import errno
import io
from pathlib import Path

import pytest
import pyzstd
from hypothesis import given
from hypothesis import strategies as st

from lakebed.aof.footer import decode_footer
from lakebed.aof.format import FOOTER_BYTES
from lakebed.aof.tiers.dictionary import Dictionary
from lakebed.aof.tiers.errors import Cancelled, MissingDictionary
from lakebed.aof.tiers.frames import Frames
from lakebed.aof.tiers.ranges import BytesSource, FileSource, crc64_of
from lakebed.aof.tiers.warm_file import Compression, compress_segment, decompress_to
from lakebed.base.errors import BadConfig, Corrupt, DataError, LakebedError, NoSpace, NotFound
from lakebed.base.simulation.disk import Crash
from lakebed.base.simulation.sweep import sweep
from lakebed.base.simulation.world import World
from lakebed.base.units import KIB, MIB
from lakebed.kernels.disk import real_disk
from tests.aof.segments import flipped, interchange_segment
from tests.aof.tiers.samples import (
    FOLDER,
    SEGMENT,
    SMALL_FRAMES,
    WARM,
    content,
    disk_with,
    payloads,
    sealed_segment,
    warm,
)

pytestmark = pytest.mark.thorough

RESTORED = f"{FOLDER}/b.seg"


def restored(data: bytes) -> bytes:
    disk = disk_with(b"")
    decompress_to(BytesSource(data), disk, RESTORED)
    return content(disk, RESTORED)


@given(
    lengths=st.lists(st.integers(1, 9000), min_size=1, max_size=12),
    frame_bytes=st.sampled_from([4096, 5000, 64 * KIB]),
    level=st.sampled_from([1, 3]),
)
def test_a_restored_segment_is_the_same_byte_for_byte(
    lengths: list[int], frame_bytes: int, level: int
) -> None:
    segment = sealed_segment([bytes([n % 251]) * n for n in lengths], size=128 * KIB)
    data, _ = warm(segment, Compression(level=level, frame_bytes=frame_bytes))
    assert restored(data) == segment


@pytest.mark.parametrize("gap_bytes", [0, 8, 4096])
def test_a_segment_that_is_full_is_restored(gap_bytes: int) -> None:
    records = payloads(50)
    end = warm(sealed_segment(records))[1].footer.durable_bytes
    segment = sealed_segment(records, size=end + gap_bytes + FOOTER_BYTES)
    assert restored(warm(segment)[0]) == segment


def test_the_facts_are_those_of_both_files() -> None:
    segment = sealed_segment()
    data, facts = warm(segment)
    assert facts.original_bytes == len(segment)
    assert facts.compressed_bytes == len(data)
    assert facts.crc64 == crc64_of(BytesSource(data))
    assert facts.footer == decode_footer(segment[-FOOTER_BYTES:])
    assert facts.dictionary_id == 0
    assert facts.frame_count == Frames(BytesSource(data)).table.frame_count
    # Frames of records, one of zeros, one for the footer alone.
    assert facts.frame_count == -(-facts.footer.durable_bytes // SMALL_FRAMES.frame_bytes) + 2


def test_any_reader_of_the_public_format_restores_the_segment() -> None:
    segment = sealed_segment()
    data, facts = warm(segment)
    assert pyzstd.decompress(data) == segment
    with pyzstd.SeekableZstdFile(io.BytesIO(data)) as file:
        assert file.seek_table_info is not None
        assert file.seek_table_info[0] == facts.frame_count
        file.seek(10_000)
        assert file.read(500) == segment[10_000:10_500]


def test_the_zeros_behind_the_records_cost_next_to_nothing() -> None:
    records = payloads(250)
    _, small = warm(sealed_segment(records, size=64 * KIB))
    _, large = warm(sealed_segment(records, size=32 * MIB))
    assert large.compressed_bytes - small.compressed_bytes < 2 * KIB
    assert large.frame_count - small.frame_count < 10


def test_the_zeros_are_neither_read_nor_written() -> None:
    segment = sealed_segment(size=8 * MIB)
    disk = disk_with(segment)
    before = disk.used_bytes()
    compress_segment(disk, SEGMENT, WARM)
    with disk.open(WARM) as file:
        decompress_to(FileSource(file), disk, RESTORED)
    assert disk.used_bytes() - before < 128 * KIB
    assert content(disk, RESTORED) == segment


@pytest.mark.parametrize(
    ("segment", "problem"),
    [
        (b"", "too short"),
        (b"\0" * 159, "too short"),
        (bytes(64 * KIB), "has no header"),
        (sealed_segment(is_sealed=False), "not sealed"),
        (interchange_segment(), "wrong magic"),
        (flipped(sealed_segment(), 64 * KIB - 50), "footer's checksum"),
        (flipped(sealed_segment(), 30), "wrong max_size"),
        (flipped(sealed_segment(), 5000), "checksum of the segment's records is wrong"),
        (sealed_segment() + bytes(8), "wrong max_size"),
    ],
)
def test_what_is_no_whole_segment_is_refused_and_leaves_nothing(
    segment: bytes, problem: str
) -> None:
    disk = disk_with(segment)
    with pytest.raises(Corrupt, match=problem):
        compress_segment(disk, SEGMENT, WARM)
    assert disk.names(FOLDER) == ["a.seg"]


def test_a_warm_file_whose_payload_is_not_the_footers_is_refused() -> None:
    """Such a file cannot be made by us: its frames are in order, and what they hold is not."""
    archive = io.BytesIO()
    with pyzstd.SeekableZstdFile(archive, "w", max_frame_content_size=4096) as file:
        file.write(flipped(sealed_segment(), 5000))
    disk = disk_with(b"")
    with pytest.raises(Corrupt, match="checksum of the segment's records is wrong"):
        decompress_to(BytesSource(archive.getvalue()), disk, RESTORED)
    assert disk.names(FOLDER) == ["a.seg"]


def test_restoring_replaces_nothing_if_it_fails() -> None:
    data, _ = warm(sealed_segment())
    disk = disk_with(b"what was there")
    with pytest.raises(DataError):
        decompress_to(BytesSource(flipped(data, 3000)), disk, SEGMENT)
    assert content(disk, SEGMENT) == b"what was there"
    assert disk.names(FOLDER) == ["a.seg"]


@pytest.mark.parametrize("frames", range(0, 9, 2))
def test_compression_stops_between_frames_and_leaves_nothing(frames: int) -> None:
    disk = disk_with(sealed_segment())
    asked = iter(range(1000))
    with pytest.raises(Cancelled, match="stopped on request"):
        compress_segment(
            disk, SEGMENT, WARM, compression=SMALL_FRAMES, should_stop=lambda: next(asked) == frames
        )
    assert disk.names(FOLDER) == ["a.seg"]


def test_restoring_stops_between_frames_and_leaves_nothing() -> None:
    data, _ = warm(sealed_segment())
    disk = disk_with(b"")
    asked = iter(range(1000))
    with pytest.raises(Cancelled):
        decompress_to(BytesSource(data), disk, RESTORED, should_stop=lambda: next(asked) == 5)
    assert disk.names(FOLDER) == ["a.seg"]


def test_a_dictionary_must_be_at_hand_again() -> None:
    records = payloads(2000)
    dictionary = Dictionary(pyzstd.train_dict(records, 8 * KIB).dict_content)
    segment = sealed_segment(records[:250])
    disk = disk_with(segment)
    facts = compress_segment(disk, SEGMENT, WARM, compression=SMALL_FRAMES, dictionary=dictionary)
    assert facts.dictionary_id == dictionary.dictionary_id != 0
    with disk.open(WARM) as file:
        with pytest.raises(MissingDictionary, match="dictionary that is not loaded"):
            decompress_to(FileSource(file), disk, RESTORED)
        assert not disk.exists(RESTORED)
        decompress_to(FileSource(file), disk, RESTORED, dictionary=dictionary)
    assert content(disk, RESTORED) == segment


def test_bytes_that_are_no_dictionary_are_refused() -> None:
    with pytest.raises(BadConfig, match="not a zstd dictionary"):
        Dictionary(b"neither")


def test_a_segment_that_is_gone_is_not_found() -> None:
    with pytest.raises(NotFound):
        compress_segment(disk_with(b""), f"{FOLDER}/other.seg", WARM)


@pytest.mark.parametrize("operation", ["create", "pwrite", "fdatasync", "rename", "fsync"])
def test_a_failing_disk_leaves_no_half_of_either_file(operation: str) -> None:
    segment = sealed_segment()
    disk = disk_with(segment)
    disk.faults.fail(operation, code=errno.EIO)
    with pytest.raises(LakebedError):
        compress_segment(disk, SEGMENT, WARM)
    if disk.exists(WARM):  # the sync of the folder failed: the file is whole
        assert pyzstd.decompress(content(disk, WARM)) == segment
    compress_segment(disk, SEGMENT, WARM)
    disk.faults.fail(operation, code=errno.EIO)
    with disk.open(WARM) as file, pytest.raises(LakebedError):
        decompress_to(FileSource(file), disk, RESTORED)
    if disk.exists(RESTORED):
        assert content(disk, RESTORED) == segment


def test_a_full_disk_leaves_no_rubbish() -> None:
    disk = disk_with(sealed_segment())
    disk.capacity_bytes = disk.used_bytes()
    with pytest.raises(NoSpace):
        compress_segment(disk, SEGMENT, WARM)
    assert disk.names(FOLDER) == ["a.seg"]


class CompressAndRestore:
    """Makes the warm file, removes the segment, restores it; each only after the one before."""

    segment = sealed_segment(payloads(60), size=16 * KIB)

    def __init__(self) -> None:
        self.is_set_up = False
        self.is_compressed = False
        self.is_restored = False

    def run(self, world: World) -> None:
        disk = world.disk
        disk.make_folder(FOLDER)
        disk.sync_folder("/")
        with disk.create(SEGMENT) as file:
            file.write_and_sync(0, [self.segment])
        disk.sync_folder(FOLDER)
        self.is_set_up = True
        compress_segment(disk, SEGMENT, WARM, compression=SMALL_FRAMES)
        self.is_compressed = True
        disk.unlink(SEGMENT)
        with disk.open(WARM) as file:
            decompress_to(FileSource(file), disk, RESTORED)
        self.is_restored = True
        disk.unlink(WARM)

    def check(self, world: World) -> None:
        disk = world.disk
        found = []
        if disk.exists(WARM):
            found.append(pyzstd.decompress(content(disk, WARM)))
        if disk.exists(RESTORED):
            found.append(content(disk, RESTORED))
        assert all(data == self.segment for data in found), "half of a file has its name"
        if self.is_set_up and disk.exists(SEGMENT):
            found.append(content(disk, SEGMENT))
        assert found or not self.is_set_up, "the segment is lost"
        assert disk.exists(WARM) or self.is_restored or not self.is_compressed
        assert disk.exists(RESTORED) or not self.is_restored


def test_a_crash_at_any_step_loses_no_segment_and_shows_no_half() -> None:
    assert sweep(CompressAndRestore, seeds=range(3)) > 200


def test_a_kill_and_then_a_power_cut_lose_nothing_acknowledged() -> None:
    world = World(3)
    scenario = CompressAndRestore()
    scenario.run(world)
    world.restart(Crash.KILL)
    world.restart(Crash.POWER)
    scenario.check(world)


def test_files_of_the_operating_system_work_too(tmp_path: Path) -> None:
    segment = sealed_segment(payloads(4000), size=2 * MIB)
    (tmp_path / "a.seg").write_bytes(segment)
    disk = real_disk()
    compress_segment(disk, str(tmp_path / "a.seg"), str(tmp_path / "a.zst"))
    with disk.open(tmp_path / "a.zst") as file:
        decompress_to(FileSource(file), disk, str(tmp_path / "b.seg"))
    assert (tmp_path / "b.seg").read_bytes() == segment
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.seg", "a.zst", "b.seg"]
