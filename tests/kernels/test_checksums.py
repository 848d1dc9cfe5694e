"""The two CRCs: public check values, the packages everybody uses, and every path through the C."""

from __future__ import annotations

import random

import crc32c as public_crc32c
import pytest
from awscrt.checksums import crc64nvme as public_crc64nvme

from lakebed.base import checksum
from tests.kernels.samples import U64_MAX, Kernels

CRC32C_VECTORS = [  # RFC 3720, B.4, and the check value of the CRC catalogues
    (b"", 0x00000000),
    (b"123456789", 0xE3069283),
    (bytes(32), 0x8A9136AA),
    (b"\xff" * 32, 0x62A8AB43),
    (bytes(range(32)), 0x46DD794E),
    (bytes(range(31, -1, -1)), 0x113FDB5C),
]
CRC64NVME_VECTORS = [  # the NVMe command set's examples, and the check value
    (b"", 0x0000000000000000),
    (b"123456789", 0xAE8B14860A799888),
    (bytes(4096), 0x6482D367EB22B64E),
    (b"\xff" * 4096, 0xC0DDBA7302ECA3AC),
]
LENGTHS = [*range(530), 767, 768, 769, 1023, 1024, 1025, 4095, 6143, 6144, 6145, 20_000]


@pytest.mark.parametrize(("data", "crc"), CRC32C_VECTORS)
def test_crc32c_has_the_published_values(featured: Kernels, data: bytes, crc: int) -> None:
    assert featured.crc32c(data) == crc


@pytest.mark.parametrize(("data", "crc"), CRC64NVME_VECTORS)
def test_crc64nvme_has_the_published_values(featured: Kernels, data: bytes, crc: int) -> None:
    assert featured.crc64nvme(data) == crc


def test_every_length_and_alignment_agrees_with_the_public_packages(featured: Kernels) -> None:
    source = random.Random(64)
    data = memoryview(source.randbytes(21_000))
    for length in LENGTHS:
        start = source.randrange(64)
        part = data[start : start + length]
        before = source.randrange(U64_MAX)
        assert featured.crc64nvme(part, before) == public_crc64nvme(part, before), length
        before >>= 32
        assert featured.crc32c(part, before) == public_crc32c.crc32c(part, before), length


def test_a_checksum_continues_at_every_split(featured: Kernels) -> None:
    data = random.Random(1).randbytes(1500)
    for split in range(0, len(data), 7):
        first, second = data[:split], data[split:]
        assert featured.crc32c(second, featured.crc32c(first)) == featured.crc32c(data)
        assert featured.crc64nvme(second, featured.crc64nvme(first)) == featured.crc64nvme(data)


def test_a_long_buffer_is_summed_without_the_interpreter_lock(kernels: Kernels) -> None:
    data = random.Random(2).randbytes(300_000)
    assert kernels.crc32c(data) == public_crc32c.crc32c(data)
    assert kernels.crc64nvme(data) == public_crc64nvme(data)


def test_fold_is_the_upper_half_xor_the_lower(kernels: Kernels) -> None:
    assert kernels.fold64(0xAE8B14860A799888) == 0xAE8B1486 ^ 0x0A799888
    for value in (0, 1, 1 << 32, U64_MAX):
        assert kernels.fold64(value) == checksum.fold64(value)


def test_any_contiguous_object_has_a_checksum(kernels: Kernels) -> None:
    data = b"123456789"
    for same in (bytearray(data), memoryview(data), memoryview(b"." + data)[1:]):
        assert kernels.crc32c(same) == 0xE3069283
        assert kernels.crc64nvme(same) == 0xAE8B14860A799888
    assert kernels.crc64nvme(memoryview(b"")) == 0
