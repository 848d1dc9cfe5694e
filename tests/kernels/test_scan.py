"""Where scans stop and why, of the compiled kernels and the reference alike."""

from __future__ import annotations

import mmap

import numpy as np
import pytest

from lakebed.kernels.results import Stop
from tests.kernels.samples import Kernels, aof_data, keratin_data

AOF = aof_data([b"first", b"second record", b"x" * 40])  # 32 + 40 + 64 bytes
KERATIN = keratin_data([b"first", b"second", b""], [None, b"headers", b""])  # 41 + 49 + 36 bytes


def flipped(data: bytes, index: int, bit: int = 1) -> bytes:
    return data[:index] + bytes([data[index] ^ bit]) + data[index + 1 :]


@pytest.mark.parametrize(
    ("data", "count", "stop"),
    [
        (b"", 0, Stop.END),
        (bytes(7), 0, Stop.END),
        (bytes(24), 0, Stop.END),
        (AOF, 3, Stop.END),
        (AOF + bytes(23), 3, Stop.END),
        (AOF + bytes(1000), 3, Stop.END),
        (AOF + bytes(22) + b"\x01", 3, Stop.CUT),
        (AOF[:-1], 2, Stop.CUT),
        (AOF[:31], 0, Stop.CUT),  # only padding is missing
        (AOF[:5], 0, Stop.CUT),
        (AOF + bytes(23) + b"\x01", 3, Stop.BAD_HEADER),
        (AOF + bytes(4) + b"\x01" + bytes(60), 3, Stop.BAD_HEADER),
        (AOF + b"\xff\xff\xff\xff" + bytes(60), 3, Stop.CUT),
        (flipped(AOF, 24), 0, Stop.BAD_CHECKSUM),
        (flipped(AOF, 4), 0, Stop.BAD_CHECKSUM),
        (flipped(AOF, 72 + 24 + 39), 2, Stop.BAD_CHECKSUM),
        (flipped(AOF, 31), 3, Stop.END),  # padding is the footer's concern
        (flipped(AOF, 8), 3, Stop.END),  # and so is the timestamp
    ],
)
def test_an_aof_scan_stops(kernels: Kernels, data: bytes, count: int, stop: Stop) -> None:
    scan = kernels.aof_scan(data, 0, len(data), count_max=100)
    assert (len(scan.offsets), scan.stop) == (count, stop)
    assert scan.end == [0, 32, 72, 136][count]


@pytest.mark.parametrize(
    ("data", "count", "stop"),
    [
        (b"", 0, Stop.END),
        (b"\x00", 0, Stop.END),
        (bytes(2), 0, Stop.END),
        (b"\x00\x00rubbish", 0, Stop.END),  # only the magic's place is looked at
        (KERATIN, 3, Stop.END),
        (KERATIN + bytes(5000), 3, Stop.END),
        (KERATIN + b"K", 3, Stop.CUT),
        (KERATIN + b"\x01", 3, Stop.CUT),
        (KERATIN + b"KR", 3, Stop.CUT),
        (KERATIN + KERATIN[:31], 3, Stop.CUT),
        (KERATIN[:-1], 2, Stop.CUT),
        (KERATIN + b"KX", 3, Stop.BAD_HEADER),
        (KERATIN + b"\x00\x01", 3, Stop.BAD_HEADER),
        (flipped(KERATIN, 3), 0, Stop.BAD_HEADER),
        (KERATIN + b"KR\x00\x01" + bytes(4) + b"\xff" * 8 + bytes(90), 3, Stop.CUT),
        (flipped(KERATIN, 7), 0, Stop.BAD_CHECKSUM),
        (flipped(KERATIN, 17), 0, Stop.BAD_CHECKSUM),
        (flipped(KERATIN, 40), 0, Stop.BAD_CHECKSUM),
        (flipped(KERATIN, 41 + 32), 1, Stop.BAD_CHECKSUM),
    ],
)
def test_a_keratin_scan_stops(kernels: Kernels, data: bytes, count: int, stop: Stop) -> None:
    scan = kernels.keratin_scan(data, 0, len(data), count_max=100)
    assert (len(scan.positions), scan.stop) == (count, stop)
    assert scan.end == [0, 41, 90, 126][count]


@pytest.mark.parametrize("count_max", [0, 1, 2, 3, 4, 1 << 100])
def test_a_scan_stops_at_the_count_before_it_looks_at_more(
    kernels: Kernels, count_max: int
) -> None:
    aof = kernels.aof_scan(AOF, 0, len(AOF), count_max=count_max)
    keratin = kernels.keratin_scan(KERATIN, 0, len(KERATIN), count_max=count_max)
    expected = (min(count_max, 3), Stop.COUNT if count_max <= 3 else Stop.END)
    assert (len(aof.offsets), aof.stop) == expected
    assert (len(keratin.positions), keratin.stop) == expected


def test_a_scan_goes_on_where_the_last_one_ended(kernels: Kernels) -> None:
    first = kernels.aof_scan(AOF, 0, len(AOF), count_max=1)
    second = kernels.aof_scan(AOF, first.end, len(AOF), count_max=10)
    assert second.offsets.tolist() == [32, 72]
    assert second.timestamps.tolist() == [101, 102]


def test_records_are_aligned_from_the_start_of_the_scan(kernels: Kernels) -> None:
    data = b"odd" + AOF
    scan = kernels.aof_scan(data, 3, len(data), count_max=10)
    assert scan.offsets.tolist() == [3, 35, 75]
    assert (scan.end, scan.stop) == (len(data), Stop.END)


def test_an_end_inside_the_buffer_is_as_good_as_the_buffers_own(kernels: Kernels) -> None:
    for end in range(len(AOF) + 1):
        inside = kernels.aof_scan(AOF, 0, end, count_max=10)
        cut = kernels.aof_scan(AOF[:end], 0, end, count_max=10)
        assert [inside.end, inside.stop] == [cut.end, cut.stop]


def test_every_truncation_keeps_the_whole_records_before_it(kernels: Kernels) -> None:
    for end in range(len(KERATIN)):
        scan = kernels.keratin_scan(KERATIN, 0, end, count_max=10)
        whole = sum(boundary <= end for boundary in (41, 90, 126))
        assert len(scan.positions) == whole
        assert scan.stop == (Stop.END if end in (0, 41, 90) else Stop.CUT)
    for end in range(len(AOF)):
        scan = kernels.aof_scan(AOF, 0, end, count_max=10)
        assert len(scan.offsets) == sum(boundary <= end for boundary in (32, 72, 136))
        assert scan.stop == (Stop.END if end in (0, 32, 72) else Stop.CUT)


def test_columns_grow_past_any_first_guess(kernels: Kernels) -> None:
    payloads = [b"small"] * 600 + [b"large" * 400] * 5 + [b"small"] * 900
    data = aof_data(payloads)
    scan = kernels.aof_scan(data, 0, len(data), count_max=1 << 40)
    assert scan.lengths.tolist() == list(map(len, payloads))
    assert scan.ext_ids.tolist() == list(range(len(payloads)))
    large_first = keratin_data([b"large" * 400] * 600 + [b""] * 3000)
    found = kernels.keratin_scan(large_first, 0, len(large_first), count_max=1 << 40)
    assert found.offsets.tolist() == list(range(7, 3607))
    assert found.timestamps_ms.tolist() == list(range(1000, 4600))


def test_columns_have_natural_widths(kernels: Kernels) -> None:
    aof = kernels.aof_scan(AOF, 0, len(AOF), count_max=9)
    assert [column.format for column in aof[:4]] == ["Q", "I", "Q", "Q"]
    keratin = kernels.keratin_scan(KERATIN, 0, len(KERATIN), count_max=9)
    assert [column.format for column in keratin[:6]] == ["Q", "Q", "Q", "H", "I", "I"]
    assert all(column.readonly for column in (*aof[:4], *keratin[:6]))
    assert np.asarray(keratin.flags).dtype == np.uint16


def test_a_mapped_file_is_scanned_in_place(kernels: Kernels) -> None:
    with mmap.mmap(-1, 4096) as mapped:
        mapped[: len(AOF)] = AOF
        scan = kernels.aof_scan(mapped, 0, 4096, count_max=10)
        assert (len(scan.offsets), scan.stop) == (3, Stop.END)
