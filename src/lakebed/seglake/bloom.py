"""The bloom filter of a sealed segment: which hashes are surely not in it.

Its size follows from the number of hashes, and nothing of it is stored but the bits. It never
denies a hash that was put in; of others it lets about one in a hundred through.
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
    """Of the filter for a number of hashes."""

    bits: int  # a multiple of 8
    probes: int  # bits that are set for each hash

    @property
    def size(self) -> int:
        """In bytes."""
        return self.bits // 8


def bloom_shape(count: int) -> Shape:
    """The same on every machine: the logarithms decide nothing in their last digits."""
    wanted = math.ceil(-count * math.log(_FALSE_POSITIVES) / math.log(2) ** 2)
    bits = -(-max(_BITS_MIN, wanted) // 8) * 8
    if not count:
        return Shape(bits, 1)
    return Shape(bits, min(max(round(bits / count * math.log(2)), 1), _PROBES_MAX))


def build_bloom(hashes: Iterable[bytes], *, count: int) -> bytes:
    """The filter of `count` hashes."""
    bits, probes = bloom_shape(count)
    # A digit for each bit, which are made one number at the end: half the time of setting bits.
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
    """Whether the filter of `count` hashes lets this one through."""
    bits, probes = bloom_shape(count)
    first, step = HASH_WORDS.values(hash_, 0)
    step = step or 1
    places = ((first + probe * step) % bits for probe in range(probes))
    return all(bloom[place >> 3] >> (place & 7) & 1 for place in places)
