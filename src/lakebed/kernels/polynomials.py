"""The polynomials of the CRCs, and the folding constants that are computed from them.

All CRCs are reflected: bit 0 of a word is its highest power of x. A carry-less product of two
reflected words comes out one bit short, so each constant is a power lowered by one:

- a 128-bit block (A, B), A its first word, moves over `d` bits of message as
  `A * x^(d + 63) + B * x^(d - 1)`, each power taken modulo the polynomial;
- the last 128 bits become the CRC by one more such step and a Barrett reduction;
- three interleaved crc32c lanes are joined by moving a lane's CRC over the `n` bytes after it:
  a product with `x^(8n - 33)`, which the CRC instruction then reduces.

The build writes these numbers into a C header, so none of them is typed by hand.
"""

from __future__ import annotations

from functools import cache

CRC32_POLYNOMIAL = 0x104C11DB7  # x^32 first, as polynomials are written
CRC32C_POLYNOMIAL = 0x11EDC6F41
CRC64NVME_POLYNOMIAL = 0x1AD93D23594C93659

CRC32C_LANE_BYTES = (128, 2048)  # three lanes of this length are read in parallel
CRC64_FOLD_BITS = (128, 256, 512, 1024, 2048)


def reflect(value: int, width_bits: int) -> int:
    """Returns `value` with its lowest `width_bits` bits in the opposite order."""
    return int(f"{value:0{width_bits}b}"[::-1], 2)


def power_modulo(exponent: int, polynomial: int) -> int:
    """Returns `x^exponent` modulo the polynomial, by squaring."""
    result = 1
    for bit in f"{exponent:b}":
        result = _modulo(_multiply(result, result), polynomial)
        if bit == "1":
            result = _modulo(result << 1, polynomial)
    return result


def quotient(exponent: int, polynomial: int) -> int:
    """Returns `x^exponent` divided by the polynomial, without the remainder."""
    rest, result = 1 << exponent, 0
    while rest.bit_length() >= polynomial.bit_length():
        shift = rest.bit_length() - polynomial.bit_length()
        result |= 1 << shift
        rest ^= polynomial << shift
    return result


@cache
def reflected(polynomial: int) -> int:
    """Returns the polynomial in reflected form, without its highest power."""
    width_bits = polynomial.bit_length() - 1
    return reflect(polynomial & (1 << width_bits) - 1, width_bits)


def shift_crc(crc: int, length: int, polynomial: int) -> int:
    """Returns what the CRC of some bytes contributes to the CRC after `length` more bytes."""
    for index in range(-(-length.bit_length() // 8)):
        digit = length >> 8 * index & 0xFF
        if digit:
            crc = _reflected_product(crc, _byte_power(digit << 8 * index, polynomial), polynomial)
    return crc


def crc64_constants() -> dict[str, int]:
    """Returns the constants of the carry-less-multiply crc64-nvme, by their C names."""
    polynomial = CRC64NVME_POLYNOMIAL
    constants = {"CRC64_POLYNOMIAL": reflected(polynomial)}
    for bits in CRC64_FOLD_BITS:
        constants[f"CRC64_FOLD_{bits}_FIRST"] = _reflected_power(bits + 63, polynomial, 64)
        constants[f"CRC64_FOLD_{bits}_SECOND"] = _reflected_power(bits - 1, polynomial, 64)
    # 65 bits each; the one that does not fit stands for x^0 and is added by hand in the code.
    constants["CRC64_BARRETT_QUOTIENT"] = reflect(quotient(128, polynomial) >> 1, 64)
    constants["CRC64_BARRETT_POLYNOMIAL"] = reflect(polynomial >> 1, 64)
    return constants


def crc32c_constants() -> dict[str, int]:
    """Returns the constants of the three-lane crc32c and of combining CRC-32s, by their C names."""
    polynomial = CRC32C_POLYNOMIAL
    constants = {
        "CRC32_POLYNOMIAL": reflected(CRC32_POLYNOMIAL),
        "CRC32C_POLYNOMIAL": reflected(polynomial),
    }
    for name, lane_bytes in zip(("SHORT", "LONG"), CRC32C_LANE_BYTES, strict=True):
        constants[f"CRC32C_{name}_BYTES"] = lane_bytes
        for count in (1, 2):
            exponent = 8 * lane_bytes * count - 33
            constants[f"CRC32C_{name}_OVER_{count}"] = _reflected_power(exponent, polynomial, 32)
    return constants


def _reflected_power(exponent: int, polynomial: int, width_bits: int) -> int:
    return reflect(power_modulo(exponent, polynomial), width_bits)


def _multiply(left: int, right: int) -> int:
    product = 0
    while right:
        if right & 1:
            product ^= left
        left <<= 1
        right >>= 1
    return product


def _modulo(value: int, polynomial: int) -> int:
    while value.bit_length() >= polynomial.bit_length():
        value ^= polynomial << (value.bit_length() - polynomial.bit_length())
    return value


@cache
def _byte_power(length: int, polynomial: int) -> int:
    """Returns `x^(8 * length)` modulo the polynomial, in reflected form. The cache stays small,
    because callers use few different lengths.
    """
    return _reflected_power(8 * length, polynomial, polynomial.bit_length() - 1)


def _reflected_product(left: int, right: int, polynomial: int) -> int:
    divisor, product = reflected(polynomial), 0
    for bit in range(polynomial.bit_length() - 2, -1, -1):
        if left >> bit & 1:
            product ^= right
        right = right >> 1 ^ (divisor if right & 1 else 0)
    return product
