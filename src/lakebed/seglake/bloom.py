"""The bloom filter of a sealed segment, which rules out hashes that the segment does not contain.

The filter's size follows from the number of hashes, so only its bits are stored. The filter never
rules out a hash that was added; for other hashes, at most about one lookup in a hundred is a false
positive.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import NamedTuple

from lakebed.base.layout import Buffer
from lakebed.seglake.format import HASH_WORDS

_FALSE_POSITIVES = 0.01
_BITS_MIN = 1024
_PROBES_MAX = 8
_ZERO, _ONE = b"01"


class Shape(NamedTuple):
    """The dimensions of a bloom filter."""

    bits: int  # a multiple of 8
    probes: int  # bits that are set for each hash

    @property
    def size(self) -> int:
        """The filter's size in bytes."""
        return self.bits // 8


def bloom_shape(count: int) -> Shape:
    """Returns the dimensions of the bloom filter for `count` hashes.

    The result is the same on every machine, because the floating-point numbers are rounded.
    """
    bits_needed = math.ceil(-count * math.log(_FALSE_POSITIVES) / math.log(2) ** 2)
    bits = -(-max(_BITS_MIN, bits_needed) // 8) * 8
    if not count:
        return Shape(bits, 1)
    return Shape(bits, min(max(round(bits / count * math.log(2)), 1), _PROBES_MAX))


def build_bloom(hashes: Iterable[bytes], *, count: int) -> bytes:
    """Returns the bits of a bloom filter of `hashes`; `count` must be their number."""
    bits, probes = bloom_shape(count)
    # One ASCII digit per bit, converted to a number at the end. This takes half the time of setting
    # single bits.
    digits = bytearray((_ZERO,)) * bits
    words = HASH_WORDS.values
    turns = range(probes)
    for hash_ in hashes:
        bit, step = words(hash_, 0)
        bit %= bits
        step = (step or 1) % bits
        for _ in turns:
            digits[bit] = _ONE
            bit += step
            if bit >= bits:
                bit -= bits
    digits.reverse()  # the first bit is the lowest
    return int(digits, 2).to_bytes(bits // 8, "little")


def may_contain(bloom: Buffer, hash_: bytes, *, count: int) -> bool:
    """Returns False if the hash is certainly not among the `count` hashes of the filter."""
    bits, probes = bloom_shape(count)
    first, step = HASH_WORDS.values(hash_, 0)
    step = step or 1
    positions = ((first + probe * step) % bits for probe in range(probes))
    return all(bloom[position >> 3] >> (position & 7) & 1 for position in positions)
