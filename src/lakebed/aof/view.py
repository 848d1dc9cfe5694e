"""What readers need of a log, whoever provides it: the writer's process, or another one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from lakebed.aof.record_id import RecordId
from lakebed.base.files import Disk


class SegmentInfo(NamedTuple):
    """One segment that can be read now.

    `is_sealed`: the file never changes again; `end` is then where its records end, if that is
    known without opening it. Otherwise the durable end is what bounds a read.
    """

    segment_id: int
    base_offset: int
    created_at: int
    path: str
    is_sealed: bool
    end: int | None


class LogView(Protocol):
    """A log as its readers see it. Thread-safe."""

    @property
    def disk(self) -> Disk: ...

    def segments(self) -> Sequence[SegmentInfo]:
        """All that exist now, oldest first; a snapshot that does not change any more."""

    def durable_end(self) -> RecordId:
        """The position behind the last durable record: readers stop there."""

    def wait_beyond(self, position: RecordId, timeout: float | None) -> bool:
        """Until the durable end is beyond `position`; False if the time-out passed first.

        `Closed` if the log was closed and never will be.
        """
