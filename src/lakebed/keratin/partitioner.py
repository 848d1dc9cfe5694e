"""Maps keys to partitions with murmur2, the same way as Kafka's Java client."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from lakebed.base.layout import Buffer
from lakebed.kernels import murmur2

_WITHOUT_SIGN = 0x7FFFFFFF


def partition_of(key: Buffer, partition_count: int) -> int:
    """Returns the partition of a key: its hash without the sign bit, modulo the partition count."""
    return (murmur2(key) & _WITHOUT_SIGN) % partition_count


def divided(
    keys: Iterable[Buffer | None], partition_count: int, next_partition: Callable[[], int]
) -> list[tuple[int, list[int]]]:
    """Groups messages, given by their keys, by partition.

    Returns each partition that gets messages, with the indexes of its messages in `keys`, sorted by
    partition. All messages without a key go to the same partition, which `next_partition` chooses.
    """
    indexes: dict[int, list[int]] = {}
    keyless_partition: int | None = None
    for index, key in enumerate(keys):
        if key is None:
            keyless_partition = number = (
                next_partition() if keyless_partition is None else keyless_partition
            )
        else:
            number = partition_of(key, partition_count)
        indexes.setdefault(number, []).append(index)
    return sorted(indexes.items())
