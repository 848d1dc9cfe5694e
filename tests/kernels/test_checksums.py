"""The CRCs: public check values, the packages everybody uses, and every path through the C."""

from __future__ import annotations

import random
from collections.abc import Iterator

import crc32c as public_crc32c
import pytest
from awscrt import checksums as awscrt_checksums
from awscrt.checksums import crc64nvme as public_crc64nvme

from lakebed.base.errors import InputError
from lakebed.kernels import reference
from tests.kernels.samples import U64_MAX, Kernels, load_compiled

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
    assert featured.crc32c(data) == reference.crc32c(data) == crc


@pytest.mark.parametrize(("data", "crc"), CRC64NVME_VECTORS)
def test_crc64nvme_has_the_published_values(featured: Kernels, data: bytes, crc: int) -> None:
    assert featured.crc64nvme(data) == reference.crc64nvme(data) == crc


@pytest.fixture(params=["all", "portable", "reference"])
def summing(request: pytest.FixtureRequest) -> Iterator[Kernels]:
    """The compiled kernels with and without the CPU's instructions, and the reference."""
    if request.param == "reference":
        yield reference
        return
    compiled = load_compiled()
    before = compiled.features()
    compiled.set_features(before if request.param == "all" else [])
    yield compiled
    compiled.set_features(before)


@pytest.mark.parametrize(
    "length", [0, 1, 255, 256, 5 << 20, (1 << 32) - 1, (5 << 30) + 77, 1 << 40]
)
@pytest.mark.parametrize("name", ["crc32", "crc32c", "crc64"])
def test_a_combined_checksum_is_what_the_public_package_gives(
    summing: Kernels, name: str, length: int
) -> None:
    ours = getattr(summing, f"{name}_combine")
    public_name = "crc64nvme" if name == "crc64" else name
    public = getattr(awscrt_checksums, f"combine_{public_name}")
    source = random.Random(length)
    for _ in range(20):
        first, second = (source.randrange(1 << (64 if name == "crc64" else 32)) for _ in range(2))
        second = second if length else 0  # the checksum of no bytes
        assert ours(first, second, length) == public(first, second, length)


@pytest.mark.parametrize("name", ["crc32", "crc32c", "crc64"])
def test_what_cannot_be_combined_is_refused(kernels: Kernels, name: str) -> None:
    combine = getattr(kernels, f"{name}_combine")
    too_wide = 1 << (64 if name == "crc64" else 32)
    for wrong in [(too_wide, 0, 0), (0, too_wide, 0), (0, 0, 1 << 64), (-1, 0, 0), (0, 0, "1")]:
        with pytest.raises(InputError):
            combine(*wrong)


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


def test_the_reference_agrees_with_the_public_packages() -> None:
    source = random.Random(65)
    data = memoryview(source.randbytes(2100))
    for length in [*range(70), 255, 256, 257, 2000]:
        start = source.randrange(64)
        part = data[start : start + length]
        before = source.randrange(U64_MAX)
        assert reference.crc64nvme(part, before) == public_crc64nvme(part, before), length
        before >>= 32
        assert reference.crc32c(part, before) == public_crc32c.crc32c(part, before), length


def test_a_long_buffer_is_summed_without_the_interpreter_lock(kernels: Kernels) -> None:
    data = random.Random(2).randbytes(300_000)
    assert kernels.crc32c(data) == public_crc32c.crc32c(data)
    assert kernels.crc64nvme(data) == public_crc64nvme(data)


def test_fold_is_the_upper_half_xor_the_lower(kernels: Kernels) -> None:
    assert kernels.fold64(0xAE8B14860A799888) == 0xAE8B1486 ^ 0x0A799888
    for value, folded in ((0, 0), (1, 1), (1 << 32, 1), (U64_MAX, 0)):
        assert kernels.fold64(value) == folded


def test_any_contiguous_object_has_a_checksum(kernels: Kernels) -> None:
    data = b"123456789"
    for same in (bytearray(data), memoryview(data), memoryview(b"." + data)[1:]):
        assert kernels.crc32c(same) == 0xE3069283
        assert kernels.crc64nvme(same) == 0xAE8B14860A799888
    assert kernels.crc64nvme(memoryview(b"")) == 0
