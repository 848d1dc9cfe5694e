"""Writes zeros ahead of a busy partition's end, so that the syncs of its appends are short.

The filler works in steps, with its own file handle, some distance ahead of the writer. The writer
waits for a step only if it reaches the range that the step is filling, or seals or closes the
segment. The zeros are only an optimization and do not change the contents: a log ends where zeros
begin.

Invariants:
- a step never writes where there are records, or where records will be written before the step
  ends;
- a step writes nothing to a segment that is sealed or is being sealed;
- a failed sync of the filler may have consumed a write error that concerned the writer's records,
  and the writer's own sync would then succeed. So the writer calls `check` after each of its syncs,
  before it acknowledges anything.
"""

from __future__ import annotations

import logging

from lakebed.base.clock import NS_PER_MS, NS_PER_S
from lakebed.base.commit import SpaceReserve
from lakebed.base.counters import Counters
from lakebed.base.errors import DiskError, Poisoned, RetryError, SyncFailed
from lakebed.base.events import event
from lakebed.base.files import Disk
from lakebed.base.runner import Event, Runner
from lakebed.base.units import KIB, MIB
from lakebed.base.zero_fill import (
    WINDOW_NS,
    FillDecision,
    FlushShare,
    Load,
    SpareBudget,
    decide_fill,
)
from lakebed.keratin.config import TopicConfig
from lakebed.keratin.format import OFFSET_MAX
from lakebed.keratin.paths import PartitionPaths, SegmentFile

_log = logging.getLogger(__name__)

STEP_BYTES_MAX = 4 * MIB
AHEAD_BYTES_MAX = 64 * MIB
ASK_AGAIN_BYTES = 256 * KIB  # bytes written before a partition that was not busy is checked again
_REFUSED_NS = NS_PER_S


class Filler:
    """Writes zeros ahead of the records of one partition.

    The writer calls `begin`, `reach`, `check` and `end`; the runner calls `step`.
    """

    def __init__(
        self,
        disk: Disk,
        paths: PartitionPaths,
        runner: Runner,
        *,
        config: TopicConfig,
        budget: SpareBudget,
        counters: Counters,
    ) -> None:
        self._disk = disk
        self._paths = paths
        self._runner = runner
        self._clock = runner.clock
        self._config = config
        self._step_bytes = min(STEP_BYTES_MAX, config.segment_bytes // 16)
        # The distance of the first step from the records: room for appends during that step.
        self._margin_bytes = self._step_bytes
        # Filled ahead of the records, again whenever half of it has been used.
        self._ahead_bytes = min(AHEAD_BYTES_MAX, config.segment_bytes // 4)
        self._budget = budget
        self._durations_ns = counters.histogram("commit_duration_ns")
        self._committed_bytes = counters.counter("commit_bytes")
        self._share = FlushShare(self._durations_ns, runner.clock)
        self._reserve = SpaceReserve(disk, paths.folder, reserve_bytes=config.reserve_bytes)
        self._mutex = runner.mutex()
        # The mutex guards all of the following.
        self._base_offset: int | None = None  # of the segment; None: nothing may be written
        self._begun_ns = 0
        self._begun_bytes = 0
        self._end = 0  # the end of the records, as the writer last reported it
        self._filled_end = 0  # zeros up to here are durable
        self._taken_bytes = 0  # of the budget
        self._ask_at = 0  # the writer requests a step when its records reach this position
        self._filling: tuple[int, int] | None = None
        self._failure: DiskError | None = None
        self._done: Event | None = None  # set when the step has ended; the writer waits for it

    # Called by the writer.

    def begin(self, *, base_offset: int, end: int) -> None:
        """Lets later steps write zeros after the records of the segment at `base_offset`.

        The records of this segment, the new active segment, end at byte `end` now.
        """
        with self._mutex:
            self._base_offset = base_offset
            self._end = self._filled_end = self._begun_bytes = end
            self._ask_at = end + min(ASK_AGAIN_BYTES, self._step_bytes)
            self._begun_ns = self._clock.monotonic_ns()

    def reach(self, end: int) -> bool:
        """Announces that records will be written up to byte `end`.

        Waits first while a step is filling bytes before `end`. Returns whether the caller must
        request a step.
        """
        while True:
            with self._mutex:
                is_in_way = self._filling is not None and end > self._filling[0]
                if not is_in_way:
                    self._end = end
                    return self._is_asking()
                done = self._done = self._done or self._runner.event()
            done.wait()

    @property
    def failure(self) -> DiskError | None:
        """The error of a failed sync of the filler, or None if no sync failed.

        After such an error, even the writer's own syncs cannot be trusted.
        """
        return self._failure

    def check(self) -> None:
        """Raises `Poisoned` if a sync of the filler failed: the file cannot be trusted then."""
        if self._failure is not None:
            raise Poisoned("sync", self._paths.folder, why=str(self._failure))

    def end(self) -> None:
        """Stops filling, after a running step has ended. Idempotent.

        When this returns, the filler writes nothing more to the segment.
        """
        while True:
            with self._mutex:
                self._base_offset = None
                if self._filling is None:
                    self._return_budget(0)
                    return
                done = self._done = self._done or self._runner.event()
            done.wait()

    # Called by the runner.

    def step(self) -> int | None:
        """Fills the next range if the partition is busy enough.

        Returns the delay to the next step in ns, or None if the next step waits for the writer's
        request.
        """
        with self._mutex:
            left_bytes = self._left_bytes()
            if left_bytes <= 0:
                self._ask_at = self._filled_end - self._ahead_bytes // 2
                return None
            load = self._load()
            has_begun = self._filled_end > self._end
            self._return_budget(max(0, self._filled_end - self._end))
            decision = decide_fill(load, has_begun=has_begun)
            if decision is FillDecision.NO:
                self._ask_at = self._end + ASK_AGAIN_BYTES
                return None
        if decision is FillDecision.LATER:
            return WINDOW_NS
        try:
            self._reserve.check(self._step_bytes)
            return 0 if self._fill() else _REFUSED_NS
        except RetryError:
            return _REFUSED_NS
        except DiskError as error:
            event(_log, "filling_failed", level=logging.WARNING, name=self._paths.name, error=error)
            return None

    def _fill(self) -> bool:
        """Fills one range; returns False if the store's budget for zeros is too small for it."""
        with self._mutex:
            base_offset = self._base_offset
            if base_offset is None:
                return True
            left_bytes = self._left_bytes()
            if left_bytes <= 0:
                return True
            start = (
                self._filled_end if self._filled_end > self._end else self._end + self._margin_bytes
            )
            end = start + min(left_bytes, self._step_bytes)
            if not self._budget.take(end - start, is_busy=True):
                return False
            self._taken_bytes += end - start
            self._filling = (start, end)
        is_done = False
        try:
            path = self._paths.segment(base_offset, SegmentFile.LOG)
            with self._disk.open(path, writable=True) as file:
                file.zero_fill(start, end - start)
                file.sync()
            is_done = True
        except SyncFailed as error:
            self._failure = error
            raise
        finally:
            with self._mutex:
                self._filling = None
                if is_done and self._base_offset == base_offset:
                    self._filled_end = end
                done, self._done = self._done, None
            if done is not None:
                done.set()
        return True

    def _is_asking(self) -> bool:
        """Returns whether the writer must request a step; True only once until that step runs.

        The caller holds the mutex.
        """
        is_asking = self._end >= self._ask_at and self._left_bytes() > 0
        if is_asking:
            self._ask_at = OFFSET_MAX  # the step sets it again
        return is_asking

    def _left_bytes(self) -> int:
        """Returns the number of bytes still to be filled.

        The number is 0 or negative if there is nothing to fill. The caller holds the mutex.
        """
        if not self._config.zero_fill or self._base_offset is None:
            return 0
        target_end = min(self._end + self._ahead_bytes, self._config.segment_bytes)
        start = self._filled_end if self._filled_end > self._end else self._end + self._margin_bytes
        return target_end - start

    def _load(self) -> Load:
        """Measures the partition's write load. The caller holds the mutex."""
        age_ns = max(NS_PER_MS, self._clock.monotonic_ns() - self._begun_ns)
        flushes = max(1, self._durations_ns.snapshot().count)
        return Load(
            bytes_per_s=(self._end - self._begun_bytes) * NS_PER_S // age_ns,
            flush_bytes=self._committed_bytes.value // flushes,
            flush_share=self._share.measure(),
        )

    def _return_budget(self, used_bytes: int) -> None:
        """Gives back what the filler took from the budget beyond `used_bytes`.

        Records now cover those zeros, or filling has ended. The caller holds the mutex.
        """
        if self._taken_bytes > used_bytes:
            self._budget.give_back(self._taken_bytes - used_bytes)
            self._taken_bytes = used_bytes
