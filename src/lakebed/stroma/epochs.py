"""Epochs: numbers of leases. They distinguish the current holder of a message from earlier ones.

Each lease gets the next epoch. Before an epoch is used, a reservation that covers it is made
durable, at every ack level. When a group is opened, it continues after the reservation. So a power
cut that loses leases, because they were not synced, does not cause their epochs to be used again.

Epochs have 32 bits and wrap around, skipping 0: an epoch is used again after about four billion
others. To compare two epochs, the later one is assumed to be ahead by less than half the range.
"""

from __future__ import annotations

from lakebed.stroma.format import U32_MAX

RESERVED_COUNT = 1 << 16
_HALF = 1 << 31


def next_epoch(epoch: int) -> int:
    return epoch + 1 if epoch < U32_MAX else 1


def leap(epoch: int) -> int:
    """Returns the last epoch of a reservation that starts with the epoch after `epoch`."""
    ahead = epoch + RESERVED_COUNT
    return ahead if ahead <= U32_MAX else ahead - U32_MAX


def is_later(epoch: int, than: int) -> bool:
    return epoch != than and (epoch - than) & U32_MAX < _HALF


def later(first: int, second: int) -> int:
    return first if is_later(first, second) else second
