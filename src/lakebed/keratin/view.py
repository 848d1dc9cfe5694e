"""What a reader needs to know of a partition, whoever tells it: its writer, or the files."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from lakebed.base.damage_ledger import DamageRecord
from lakebed.base.files import Disk
from lakebed.base.runner import Runner


@dataclass(frozen=True, slots=True)
class PartitionSegment:
    """One segment of a partition, up to where it may be read."""

    base_offset: int
    next_offset: int  # after its last message
    path: str  # of its `.log`, on the machine that has it
    end: int  # bytes: after its last record
    is_sealed: bool
    generation: int = 0  # counts how often the file was replaced by a smaller one


class PartitionView(Protocol):
    """Thread-safe."""

    @property
    def name(self) -> str: ...

    @property
    def disk(self) -> Disk: ...

    @property
    def runner(self) -> Runner: ...

    def segments(self) -> Sequence[PartitionSegment]:
        """Oldest first. The last one is not sealed, and ends at the durable end."""

    def lost_offsets(self) -> Sequence[DamageRecord]:
        """Ranges of messages that are lost, and that nobody has acknowledged, by their start."""

    def start_offset(self) -> int:
        """The first message that may be read; there may be fewer messages than offsets."""

    def high_watermark(self) -> int:
        """Behind the last durable message."""

    def wait_beyond(self, offset: int, timeout: float | None) -> bool:
        """Until the high watermark is larger than that; False if the seconds passed first.

        `Closed` if the partition was closed meanwhile.
        """

    def on_durable(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Call whenever the high watermark moved; what is returned ends that."""
