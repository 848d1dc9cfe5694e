"""What encoding promises, of the compiled kernels and the reference alike."""

from __future__ import annotations

from array import array
from typing import Any

import numpy as np
import pytest
from awscrt.checksums import crc64nvme

from lakebed.base.errors import InputError, TooLarge
from tests.kernels.samples import U64_MAX, Kernels


def aof(kernels: Kernels, payloads: Any, **named: Any) -> Any:
    return kernels.aof_encode(
        payloads, **{"timestamps": 1, "ext_ids": 2, "capacity": 1 << 30, **named}
    )


def keratin(kernels: Kernels, payloads: Any, headers: Any = None, **named: Any) -> Any:
    given = {"offsets": 0, "timestamps_ms": 1, "flags": 0, "capacity": 1 << 30, **named}
    return kernels.keratin_encode(payloads, headers, **given)


def test_no_payloads_are_no_bytes(kernels: Kernels) -> None:
    encoded = aof(kernels, [], crc64=77)
    assert (encoded.data, encoded.offsets.tolist(), encoded.crc64) == (b"", [], 77)
    assert keratin(kernels, []).data == b""


def test_aof_records_stand_on_boundaries_with_zero_padding(kernels: Kernels) -> None:
    encoded = aof(kernels, [b"x" * length for length in range(1, 20)])
    assert len(encoded.data) % 8 == 0
    ends = [*encoded.offsets.tolist()[1:], len(encoded.data)]
    for length, start, end in zip(range(1, 20), encoded.offsets, ends, strict=True):
        assert start % 8 == 0
        assert not any(encoded.data[start + 24 + length : end])


def test_the_running_checksum_covers_all_bytes_of_all_calls(kernels: Kernels) -> None:
    first = aof(kernels, [b"one", b"two" * 50])
    second = aof(kernels, [b"three" * 9_000, b"four"], crc64=first.crc64)
    assert second.crc64 == crc64nvme(first.data + second.data)


@pytest.mark.parametrize("spare", [0, 1, 31])
def test_the_longest_prefix_that_fits_is_encoded(kernels: Kernels, spare: int) -> None:
    payloads = [b"a", b"b" * 8, b"c" * 9, b"d"]
    assert len(aof(kernels, payloads, capacity=64 + spare).offsets) == 2
    assert len(keratin(kernels, payloads, capacity=37 + 44 + spare).positions) == 2
    assert len(aof(kernels, payloads, capacity=63).offsets) == 1
    assert len(aof(kernels, payloads, capacity=31).offsets) == 0


def test_a_payload_that_does_not_fit_ends_the_prefix_though_later_ones_would(
    kernels: Kernels,
) -> None:
    assert len(aof(kernels, [b"a", b"b" * 500, b"c"], capacity=96).offsets) == 1


def test_payloads_behind_the_capacity_are_checked_too(kernels: Kernels) -> None:
    with pytest.raises(InputError, match="payload 2 is empty"):
        aof(kernels, [b"a", b"b", b""], capacity=32)


def test_an_empty_payload_is_refused_by_aof_and_taken_by_keratin(kernels: Kernels) -> None:
    with pytest.raises(InputError, match="payload 0 is empty"):
        aof(kernels, [bytearray()])
    assert len(keratin(kernels, [b"", memoryview(b"")]).positions) == 2


def test_a_payload_over_four_gigabytes_is_too_large(kernels: Kernels) -> None:
    huge = np.broadcast_to(np.zeros(1, "u1"), (1 << 32,))
    with pytest.raises(InputError, match="contiguous"):
        aof(kernels, [huge])
    lazily_zero = np.zeros(1 << 32, "u1")  # never touched, so never in memory
    for encode in (aof, keratin):
        with pytest.raises(TooLarge, match="size of payload 1 in bytes is 4294967296"):
            encode(kernels, [b"a", lazily_zero])
    with pytest.raises(TooLarge, match="size of header 0 in bytes is 4294967296"):
        keratin(kernels, [b"a"], [lazily_zero])


@pytest.mark.parametrize(
    "numbers",
    [
        [3, 4],
        (3, 4),
        array("Q", [3, 4]),
        array("q", [3, 4]),
        array("B", [3, 4]),
        bytes([3, 4]),
        memoryview(array("Q", [3, 9, 4]))[::2],
        np.array([3, 4], "u8"),
        np.array([3, 4], "i4"),
        np.array([3, 9, 4], "u8")[::2],
        [np.uint64(3), True + 3],
        range(3, 5),
    ],
    ids=lambda numbers: type(numbers).__name__,
)
def test_numbers_come_in_any_form_of_one_a_record(kernels: Kernels, numbers: Any) -> None:
    plain = aof(kernels, [b"a", b"b"], timestamps=[3, 4], ext_ids=[3, 4])
    assert aof(kernels, [b"a", b"b"], timestamps=numbers, ext_ids=numbers).data == plain.data
    plain = keratin(kernels, [b"a", b"b"], offsets=[3, 4], timestamps_ms=[3, 4], flags=[3, 4])
    given = keratin(kernels, [b"a", b"b"], offsets=numbers, timestamps_ms=numbers, flags=numbers)
    assert given.data == plain.data


@pytest.mark.parametrize("one", [5, np.uint64(5), np.int16(5), np.array(5)])
def test_one_number_serves_all_records(kernels: Kernels, one: Any) -> None:
    plain = aof(kernels, [b"a", b"b"], timestamps=[5, 5])
    assert aof(kernels, [b"a", b"b"], timestamps=one).data == plain.data


def test_one_offset_is_the_first_and_the_others_count_up(kernels: Kernels) -> None:
    last = keratin(kernels, [b"a"] * 3, offsets=U64_MAX - 2)
    listed = keratin(kernels, [b"a"] * 3, offsets=[U64_MAX - 2, U64_MAX - 1, U64_MAX])
    assert last.data == listed.data
    with pytest.raises(InputError, match="would exceed the largest offset"):
        keratin(kernels, [b"a"] * 3, offsets=U64_MAX - 1)


def test_columns_are_flat_and_read_only(kernels: Kernels) -> None:
    offsets = aof(kernels, [b"a", b"b"]).offsets
    assert (offsets.format, offsets.ndim, offsets.itemsize, offsets.readonly) == ("Q", 1, 8, True)
    taken = np.asarray(offsets)
    assert taken.dtype == np.uint64
    assert taken.tolist() == [0, 32]


def test_a_column_outlives_its_result(kernels: Kernels) -> None:
    offsets = aof(kernels, [b"a"] * 1000).offsets
    assert offsets.tolist() == list(range(0, 32_000, 32))
    assert offsets[3:5].tolist() == [96, 128]


def test_a_large_batch_crosses_the_checksum_strides(kernels: Kernels) -> None:
    payloads = [bytes([index % 251]) * (index % 700 + 1) for index in range(700)]
    encoded = aof(kernels, payloads, timestamps=range(700))
    assert encoded.crc64 == crc64nvme(encoded.data)
    scan = kernels.aof_scan(encoded.data, 0, len(encoded.data), count_max=1000)
    assert scan.lengths.tolist() == list(map(len, payloads))
    assert scan.timestamps.tolist() == list(range(700))
