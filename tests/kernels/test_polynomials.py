"""The folding constants, recomputed the slow way and compared with published ones."""

from __future__ import annotations

from lakebed.kernels import polynomials
from lakebed.kernels.polynomials import (
    CRC32C_POLYNOMIAL,
    CRC64NVME_POLYNOMIAL,
    crc32c_constants,
    crc64_constants,
    power_modulo,
    quotient,
    reflect,
)


def slow_power(exponent: int, polynomial: int) -> int:
    """Multiply by x, one step at a time."""
    value = 1
    for _ in range(exponent):
        value <<= 1
        if value.bit_length() == polynomial.bit_length():
            value ^= polynomial
    return value


def test_powers_agree_with_repeated_multiplication_by_x() -> None:
    for polynomial in (CRC32C_POLYNOMIAL, CRC64NVME_POLYNOMIAL):
        for exponent in (0, 1, 31, 63, 64, 127, 191, 991, 2111):
            assert power_modulo(exponent, polynomial) == slow_power(exponent, polynomial)


def test_crc64_constants_are_the_published_ones() -> None:
    constants = crc64_constants()
    assert constants["CRC64_POLYNOMIAL"] == 0x9A6C9329AC4BC9B5
    assert constants["CRC64_FOLD_128_SECOND"] == 0x21E9761E252621AC  # x^127
    assert constants["CRC64_FOLD_128_FIRST"] == 0xEADC41FD2BA3D420  # x^191
    assert constants["CRC64_BARRETT_QUOTIENT"] == 0x27ECFA329AEF9F77
    assert constants["CRC64_BARRETT_POLYNOMIAL"] == 0x34D926535897936B


def test_every_fold_distance_has_its_two_powers() -> None:
    constants = crc64_constants()
    for bits in polynomials.CRC64_FOLD_BITS:
        first = slow_power(bits + 63, CRC64NVME_POLYNOMIAL)
        second = slow_power(bits - 1, CRC64NVME_POLYNOMIAL)
        assert constants[f"CRC64_FOLD_{bits}_FIRST"] == reflect(first, 64)
        assert constants[f"CRC64_FOLD_{bits}_SECOND"] == reflect(second, 64)


def test_every_crc32c_lane_has_its_powers() -> None:
    constants = crc32c_constants()
    assert constants["CRC32C_POLYNOMIAL"] == 0x82F63B78
    for name in ("SHORT", "LONG"):
        lane_bytes = constants[f"CRC32C_{name}_BYTES"]
        assert lane_bytes % 8 == 0
        for count in (1, 2):
            power = slow_power(8 * lane_bytes * count - 33, CRC32C_POLYNOMIAL)
            assert constants[f"CRC32C_{name}_OVER_{count}"] == reflect(power, 32)


def test_a_quotient_leaves_a_rest_below_the_polynomial() -> None:
    product = 0
    for bit in range(65):
        if quotient(128, CRC64NVME_POLYNOMIAL) >> bit & 1:
            product ^= CRC64NVME_POLYNOMIAL << bit
    assert (product ^ 1 << 128).bit_length() <= 64
