"""The interface of a log for its readers, in the writer's process or in another one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from lakebed.aof.holds import PositionedReader
from lakebed.aof.record_id import RecordId
from lakebed.base.files import Disk
from lakebed.base.runner import Runner

if TYPE_CHECKING:
    from lakebed.aof.tiers.cold_segments import ColdSegments


@dataclass(frozen=True, slots=True)
class SegmentInfo:
    """One segment that can be read now.

    If `is_sealed`, the file never changes again. `end` is where its records end, if that is known
    without opening it and will not change. Otherwise the footer of a sealed segment gives the end,
    and reads of an unsealed one stop at the durable end.

    In Tier 0, `path` is the segment's file. In Tier 1 it is the warm file and in Tier 2 the
    object's key; there `created_at` is 0, because only the segment itself stores it, and `end` is
    known.
    """

    segment_id: int
    base_offset: int
    created_at: int
    path: str
    is_sealed: bool
    end: int | None
    tier: int = 0
    size: int | None = field(default=None, compare=False)  # stored bytes, if they were counted


@dataclass(frozen=True, kw_only=True, slots=True)
class LogDescription:
    """The state of a log at one moment."""

    name: str
    stream_id: int
    durable_end: int  # the position after the last durable record
    coordinator_watermark: int
    segments: int


class LogView(Protocol):
    """A log as its readers see it. Thread-safe.

    A caller that takes `durable_end` first and `segments` afterwards gets every segment with
    durable records, except those removed in between.
    """

    @property
    def disk(self) -> Disk: ...

    @property
    def runner(self) -> Runner:
        """Supplies the readers' locks and events."""

    @property
    def cold(self) -> ColdSegments | None:
        """Reads segments that are not in Tier 0, or None if there are none."""

    def on_used(self, info: SegmentInfo) -> None:
        """Notes that a reader reads the segment."""

    def hold(self, reader: PositionedReader) -> None:
        """Makes retention keep what the reader has not read yet, until it is closed or dropped.

        Does nothing unless this process is the writer: pin the segments instead.
        """

    def segments(self) -> Sequence[SegmentInfo]:
        """Returns all current segments, oldest first, as an immutable snapshot."""

    def refresh(self) -> None:
        """Picks up changes made by other processes. Does nothing in the writer's process."""

    def durable_end(self) -> RecordId:
        """Returns the position after the last durable record: readers stop there."""

    def wait_beyond(self, position: RecordId, timeout: float | None) -> bool:
        """Waits until the durable end is beyond `position`; returns False if the timeout passes
        first.

        Raises `Closed` if the log is closed before that.
        """

    def on_durable(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Calls `callback` each time the durable end moves, and once on `close`.

        It is called once per flush, from any thread, after `durable_end` and `wait_beyond` show the
        new state. It must not block or raise. The returned function unregisters it; that function
        may be called from the callback, and more than once. A callback that is already running may
        finish later.
        """
