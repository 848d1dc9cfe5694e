"""Warm files that are not what they should be: an error that says so, and no more memory for it."""

from __future__ import annotations

import contextlib
import io
import tracemalloc
from collections.abc import Iterator
from functools import cache
from random import Random

import pytest
import pyzstd
from hypothesis import given
from hypothesis import strategies as st

from lakebed.aof.tiers.format import (
    SEEK_ENTRY,
    SEEK_FOOTER,
    SEEK_FOOTER_MAGIC,
    SEEK_TABLE_MAGIC,
    SKIPPABLE,
    SeekEntry,
    SeekFooter,
    SkippableHeader,
)
from lakebed.aof.tiers.ranges import BytesSource
from lakebed.aof.tiers.seekable_reader import SeekableReader
from lakebed.aof.tiers.warm_file import decompress_to
from lakebed.base.errors import Corrupt, DataError, UnknownVersion
from lakebed.base.runner import ThreadRunner
from lakebed.base.units import KIB, MIB
from tests.aof.segments import flipped
from tests.aof.tiers.samples import FOLDER, disk_with, payloads, sealed_segment, warm

RESTORED = f"{FOLDER}/b.seg"
MEMORY_BYTES_MAX = 24 * MIB


@cache
def sample() -> tuple[bytes, bytes]:
    segment = sealed_segment(payloads(60), size=16 * KIB)
    return segment, warm(segment)[0]


def read_all(data: bytes) -> bytes:
    reader = SeekableReader(BytesSource(data), mutex=ThreadRunner().mutex())
    return reader.read(0, reader.size)


def check_refused_or_harmless(data: bytes) -> None:
    """Reading and restoring give the true bytes or a `DataError`."""
    segment, _ = sample()
    for attempt in (read_all, decompress_to_bytes):
        with contextlib.suppress(DataError):
            assert attempt(data) == segment


@contextlib.contextmanager
def little_memory() -> Iterator[None]:
    tracemalloc.start()
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] < MEMORY_BYTES_MAX
    finally:
        tracemalloc.stop()


def decompress_to_bytes(data: bytes) -> bytes:
    disk = disk_with(b"")
    try:
        decompress_to(BytesSource(data), disk, RESTORED)
    except BaseException:
        assert disk.names(FOLDER) == ["a.seg"]
        raise
    with disk.open(RESTORED) as file:
        return file.pread(0, file.size())


def table(
    entries: list[SeekEntry], *, count: int | None = None, length: int | None = None
) -> bytes:
    body = b"".join(map(SEEK_ENTRY.pack, entries))
    length = len(body) + SEEK_FOOTER.size if length is None else length
    count = len(entries) if count is None else count
    return (
        SKIPPABLE.pack(SkippableHeader(SEEK_TABLE_MAGIC, length))
        + body
        + SEEK_FOOTER.pack(SeekFooter(count, 0, SEEK_FOOTER_MAGIC))
    )


def entries_of(data: bytes) -> tuple[bytes, list[SeekEntry]]:
    """The frames, and what the table says of them."""
    count = SEEK_FOOTER.unpack(data, len(data) - SEEK_FOOTER.size).frame_count
    start = len(data) - SEEK_FOOTER.size - count * SEEK_ENTRY.size
    entries = list(SEEK_ENTRY.iter_unpack(data[start : -SEEK_FOOTER.size]))
    return data[: start - SKIPPABLE.size], entries


def test_a_file_cut_anywhere_is_refused() -> None:
    _, data = sample()
    for length in range(len(data)):
        with pytest.raises(DataError):
            read_all(data[:length])


@pytest.mark.sweep
def test_any_flipped_bit_is_found_or_changes_nothing() -> None:
    _, data = sample()
    random = Random(3)
    for offset in range(len(data)):
        check_refused_or_harmless(flipped(data, offset, random.randrange(8)))


@given(noise=st.binary(max_size=400))
def test_noise_is_refused(noise: bytes) -> None:
    with pytest.raises(DataError):
        read_all(noise)
    with pytest.raises(DataError):
        read_all(noise + table([SeekEntry(max(1, len(noise)), 4096)]))


@given(
    numbers=st.lists(st.tuples(st.integers(0, 2**32 - 1), st.integers(0, 2**32 - 1)), max_size=40),
    count=st.one_of(st.none(), st.integers(0, 2**32 - 1)),
)
def test_a_table_of_any_numbers_is_refused(
    numbers: list[tuple[int, int]], count: int | None
) -> None:
    frames, _ = entries_of(sample()[1])
    with little_memory():
        check_refused_or_harmless(
            frames + table([SeekEntry(*pair) for pair in numbers], count=count)
        )


def test_sizes_that_lie_are_found_when_the_frame_is_inflated() -> None:
    frames, entries = entries_of(sample()[1])
    for change in (-1, 1, 4 * MIB - 4096):
        lying = [entries[0]._replace(inflated_bytes=entries[0].inflated_bytes + change)]
        with pytest.raises(Corrupt, match="frame 0 does not match its entry in the seek table"):
            read_all(frames + table(lying + entries[1:]))


def test_frames_that_changed_places_are_found() -> None:
    frames, entries = entries_of(sample()[1])
    swapped = [entries[1], entries[0], *entries[2:]]
    check_refused_or_harmless(frames + table(swapped))
    first, second = entries[0].compressed_bytes, entries[1].compressed_bytes
    moved = frames[first : first + second] + frames[:first] + frames[first + second :]
    with pytest.raises(DataError):
        decompress_to_bytes(moved + table(swapped))


@pytest.mark.parametrize(
    ("entries", "problem"),
    [
        ([], "frame count"),
        ([SeekEntry(0, 10)], "size of frame 0"),
        ([SeekEntry(10, 0)], "size of frame 0"),
        ([SeekEntry(10, 2**32 - 1)], "size of frame 0"),
        ([SeekEntry(2**32 - 1, 10)], "size of frame 0"),
        ([SeekEntry(11, 10)], "total size of frames"),
        ([SeekEntry(9, 10)], "total size of frames"),
    ],
)
def test_a_table_that_cannot_be_is_refused(entries: list[SeekEntry], problem: str) -> None:
    with pytest.raises(Corrupt, match=f"seek table has a wrong {problem}"):
        read_all(bytes(10) + table(entries))


@pytest.mark.parametrize("count", [1, 2, 300_000, 2**32 - 1])
def test_a_count_that_the_file_has_no_room_for_is_refused(count: int) -> None:
    with pytest.raises(Corrupt, match=r"wrong (frame count|header)"):
        read_all(table([], count=count))


class EnormousSource(BytesSource):
    """As if a terabyte stood before the bytes given."""

    def __init__(self, end: bytes) -> None:
        super().__init__(end)
        self.size = 1 << 40
        self._end = end

    def read_range(self, offset: int, length: int) -> bytes:
        assert length < MEMORY_BYTES_MAX
        end = self._end.rjust(length + self.size - offset - length, b"\0")
        return end[:length]


@pytest.mark.parametrize("count", [300_000, 2**32 - 1])
def test_more_frames_than_a_segment_can_have_are_refused(count: int) -> None:
    with little_memory(), pytest.raises(Corrupt, match="frame count"):
        SeekableReader(EnormousSource(table([], count=count)), mutex=ThreadRunner().mutex())


def test_a_frame_that_inflates_to_gigabytes_is_stopped_early() -> None:
    bomb = pyzstd.compress(bytes(200 * MIB), 1)
    lying = bomb + table([SeekEntry(len(bomb), 4 * MIB)])
    with little_memory(), pytest.raises(Corrupt, match="not match its entry in the seek table"):
        read_all(lying)


def test_a_frame_that_wants_a_huge_window_is_refused() -> None:
    options: dict[int, int] = {
        pyzstd.CParameter.windowLog: 27,
        pyzstd.CParameter.compressionLevel: 1,
    }
    compressor = pyzstd.ZstdCompressor(options)
    frame = compressor.compress(Random(1).randbytes(4096)) + compressor.flush()
    with pytest.raises(Corrupt, match="frame 0 is damaged"):
        read_all(frame + table([SeekEntry(len(frame), 4096)]))


def test_a_table_with_checksums_is_of_a_version_that_is_not_read() -> None:
    data = bytearray(sample()[1])
    data[-5] |= 0x80
    with pytest.raises(UnknownVersion, match="checksums"):
        read_all(bytes(data))


@pytest.mark.parametrize("name", ["plain zstd", "text", "empty"])
def test_other_files_are_refused(name: str) -> None:
    segment, _ = sample()
    other = {"plain zstd": pyzstd.compress(segment), "text": b"hello " * 100, "empty": b""}
    with pytest.raises(Corrupt):
        read_all(other[name])


def test_a_seekable_file_of_something_else_is_no_segment() -> None:
    archive = io.BytesIO()
    with pyzstd.SeekableZstdFile(archive, "w") as file:
        file.write(b"no segment" * 100)
    with pytest.raises(Corrupt, match="header has a wrong magic"):
        decompress_to_bytes(archive.getvalue())
