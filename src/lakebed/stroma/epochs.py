"""Epochs: the number of a lease, by which a holder whose lease ended is told from the present one.

Each lease has the next one. Before an epoch is handed out, a reservation that covers it is on the
device, whatever the group's ack level; opening a group goes on behind the reservation. So no epoch
comes again, also if leases that were only written are lost with the power.

They are 32 bits wide and go round, leaving out 0: of two, the later one is at most half of the
circle ahead. One comes again after four thousand million others.
"""

from __future__ import annotations

from lakebed.stroma.format import U32_MAX

RESERVED_COUNT = 1 << 16
_HALF = 1 << 31


def next_epoch(epoch: int) -> int:
    return epoch + 1 if epoch < U32_MAX else 1


def leap(epoch: int) -> int:
    """The last one of a reservation that starts behind `epoch`."""
    ahead = epoch + RESERVED_COUNT
    return ahead if ahead <= U32_MAX else ahead - U32_MAX


def is_later(epoch: int, than: int) -> bool:
    return epoch != than and (epoch - than) & U32_MAX < _HALF


def later(one: int, other: int) -> int:
    return one if is_later(one, other) else other
