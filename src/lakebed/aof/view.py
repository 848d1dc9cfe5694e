"""What readers need of a log, whoever provides it: the writer's process, or another one."""

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

    `is_sealed`: the file never changes again. `end` is where its records end,
    if that is known without opening it and will not change; otherwise a sealed segment's footer
    tells, and the durable end bounds the read of an unsealed one.

    In Tier 0 `path` is the segment's file. In Tier 1 it is the warm file and in Tier 2 the key of
    the object, `created_at` is 0 (only the segment itself knows), and `end` is known.
    """

    segment_id: int
    base_offset: int
    created_at: int
    path: str
    is_sealed: bool
    end: int | None
    tier: int = 0
    size: int | None = field(default=None, compare=False)  # bytes as stored, if they were counted


@dataclass(frozen=True, kw_only=True, slots=True)
class LogDescription:
    """A log at one moment."""

    name: str
    stream_id: int
    durable_end: int  # the position behind the last durable record
    coordinator_watermark: int
    segments: int


class LogView(Protocol):
    """A log as its readers see it. Thread-safe.

    Who asks for `durable_end` first and for `segments` after it finds every segment that holds
    durable records, but for those that were removed in between.
    """

    @property
    def disk(self) -> Disk: ...

    @property
    def runner(self) -> Runner:
        """Where readers get their locks and events from."""

    @property
    def cold(self) -> ColdSegments | None:
        """Where segments that are not in Tier 0 are read."""

    def on_used(self, info: SegmentInfo) -> None:
        """A reader reads that segment."""

    def hold(self, reader: PositionedReader) -> None:
        """Have retention leave alone what a reader of this process has not read yet, until it is
        closed or dropped. Nothing where this is not the writer: pin the segments there."""

    def segments(self) -> Sequence[SegmentInfo]:
        """All that exist now, oldest first; a snapshot that does not change any more."""

    def refresh(self) -> None:
        """Look again at what others may have changed. Nothing to do where this is the writer."""

    def durable_end(self) -> RecordId:
        """The position behind the last durable record: readers stop there."""

    def wait_beyond(self, position: RecordId, timeout: float | None) -> bool:
        """Until the durable end is beyond `position`; False if the time-out passed first.

        `Closed` if the log was closed and it never will be.
        """

    def on_durable(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Have `callback` called after each move of the durable end, and once by `close`.

        Once a flush, from any thread, after `durable_end` and `wait_beyond` tell the new state.
        It must not block and not raise. The function returned ends that; it may be called from
        the callback, and again; a call that is under way may still come after it.
        """
