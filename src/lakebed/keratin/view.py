"""The interface through which readers see a partition, whether open for writing or read-only."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from lakebed.base.damage_ledger import DamageRecord
from lakebed.base.files import Disk
from lakebed.base.runner import Runner


@dataclass(frozen=True, slots=True)
class PartitionSegment:
    """One segment of a partition, and the position up to which it may be read."""

    base_offset: int
    next_offset: int  # the offset after its last message
    path: str  # of its `.log`, on the machine that stores it
    end: int  # the position after its last record
    is_sealed: bool
    generation: int = 0  # how often the file was replaced since the partition was opened


class PartitionView(Protocol):
    """A partition as its readers see it. Thread-safe."""

    @property
    def name(self) -> str: ...

    @property
    def disk(self) -> Disk: ...

    @property
    def runner(self) -> Runner: ...

    def segments(self) -> Sequence[PartitionSegment]:
        """Returns the segments, oldest first.

        The last segment is the active one, which may be read up to the durable end. A partition
        that is open read-only may have no segments.
        """

    def lost_offsets(self) -> Sequence[DamageRecord]:
        """Returns the recorded losses of messages, sorted by first offset.

        Losses that an operator has acknowledged are left out.
        """

    def start_offset(self) -> int:
        """Returns the first offset that may be read. There may be no message at that offset."""

    def high_watermark(self) -> int:
        """Returns the offset after the last durable message."""

    def wait_beyond(self, offset: int, timeout: float | None) -> bool:
        """Waits until the high watermark is greater than `offset`.

        Returns True then, or False after `timeout` seconds. Raises `Closed` if the partition is
        closed.
        """

    def on_durable(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Calls `callback` when the high watermark moves, and when the partition is closed.

        It may also be called when nothing has changed. Returns a function that ends the
        subscription.
        """
