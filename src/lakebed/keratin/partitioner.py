"""Which partition a key belongs to: murmur2, as Kafka's Java client has it, so that both agree."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from lakebed.base.layout import Buffer
from lakebed.kernels import murmur2

_WITHOUT_SIGN = 0x7FFFFFFF


def partition_of(key: Buffer, partition_count: int) -> int:
    """The key's partition: the hash without its sign, modulo their number."""
    return (murmur2(key) & _WITHOUT_SIGN) % partition_count


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
