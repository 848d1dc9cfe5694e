"""The interface through which readers access a log, in the writer's process or in another one."""

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
    """One segment that can be read now, and where it is.

    `base_offset` is the segment's offset in the log, and `created_at` is in ns since 1970. A sealed
    segment (`is_sealed`) never changes again. `end` is the offset where a sealed segment's records
    end; None means that the file must be opened to find it. For an unsealed segment `end` is None,
    and reads stop at the durable end.

    `path` is the path of the segment's file in Tier 0 or of its warm file in Tier 1, or the key of
    its object in Tier 2. In Tiers 1 and 2, `end` is always known and `created_at` is 0.
    """

    segment_id: int
    base_offset: int
    created_at: int
    path: str
    is_sealed: bool
    end: int | None
    tier: int = 0
    size: int | None = field(default=None, compare=False)  # stored bytes, if known


@dataclass(frozen=True, kw_only=True, slots=True)
class LogDescription:
    """A summary of a log at one moment."""

    name: str
    stream_id: int
    durable_end: int  # the position after the last durable record
    coordinator_watermark: int
    segments: int  # how many the log has


class LogView(Protocol):
    """The interface of a log for its readers. Thread-safe.

    To get every segment with durable records, a reader must call `durable_end` before `segments`.
    """

    @property
    def disk(self) -> Disk: ...

    @property
    def runner(self) -> Runner:
        """The runner that creates the locks and events of readers."""

    @property
    def cold(self) -> ColdSegments | None:
        """Gives access to the segments that are not in Tier 0; None if no such segment is known."""

    def on_used(self, info: SegmentInfo) -> None:
        """Readers call this for each read of a segment, so that tiering knows which are in use."""

    def hold(self, reader: PositionedReader) -> None:
        """Makes retention keep the records that the reader has not read yet.

        This ends when the reader is closed or garbage-collected. It works only if the log is open
        for writing (`Aof`); readers of other views must pin the segments instead.
        """

    def segments(self) -> Sequence[SegmentInfo]:
        """Returns all current segments, oldest first, as an immutable snapshot."""

    def refresh(self) -> None:
        """Updates `segments` with changes by other processes. Does nothing for the writer's log."""

    def durable_end(self) -> RecordId:
        """Returns the position after the last durable record, where readers must stop."""

    def wait_beyond(self, position: RecordId, timeout: float | None) -> bool:
        """Waits until the durable end is after `position`, and returns True.

        Returns False if the timeout passes first, and raises `Closed` if the log is closed first.
        """

    def on_durable(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Registers `callback` to be called when the durable end has moved or the log was closed.

        It may also be called at other times, and from any thread. `callback` must not block or
        raise. The returned function unregisters `callback`; it may be called from `callback` itself
        and more than once. A call of `callback` that is running at that moment may finish later.
        """
