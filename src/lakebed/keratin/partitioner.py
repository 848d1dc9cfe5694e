"""Which partition a key belongs to: murmur2, as Kafka's Java client has it, so that both agree."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from lakebed.base.errors import InputError
from lakebed.base.layout import Buffer

_M = 0x5BD1E995
_SEED = 0x9747B28C
_MASK = 0xFFFFFFFF


def murmur2(data: Buffer) -> int:
    """The 32-bit hash, unsigned."""
    try:
        key = bytes(memoryview(data))
    except TypeError:
        raise InputError(f"a key is bytes, not {type(data).__name__}") from None
    length = len(key)
    mixed = (_SEED ^ length) & _MASK
    whole = length & ~3
    for start in range(0, whole, 4):
        part = int.from_bytes(key[start : start + 4], "little") * _M & _MASK
        part = (part ^ part >> 24) * _M & _MASK
        mixed = (mixed * _M & _MASK) ^ part
    rest = key[whole:]
    if rest:
        mixed = (mixed ^ int.from_bytes(rest, "little")) * _M & _MASK
    mixed = (mixed ^ mixed >> 13) * _M & _MASK
    return mixed ^ mixed >> 15


def partition_of(key: Buffer, partition_count: int) -> int:
    """The key's partition: the hash without its sign, modulo their number."""
    return (murmur2(key) & 0x7FFFFFFF) % partition_count


def divided(
    keys: Iterable[Buffer | None], partition_count: int, next_partition: Callable[[], int]
) -> list[tuple[int, list[int]]]:
    """The indexes of the messages that go to each partition, by partition.

    Those without a key go to the next one in turn, together.
    """
    indexes: dict[int, list[int]] = {}
    turn: int | None = None
    for index, key in enumerate(keys):
        if key is None:
            turn = number = next_partition() if turn is None else turn
        else:
            number = partition_of(key, partition_count)
        indexes.setdefault(number, []).append(index)
    return sorted(indexes.items())
