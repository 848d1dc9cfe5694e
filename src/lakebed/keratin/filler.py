"""Zeros ahead of a busy partition's end, so that the syncs of its appends are short.

They are written in steps, through a handle of their own, some way ahead of the writer; the writer
waits for a step only if it comes up to it. Nobody depends on them: zeros are where a log ends.

Invariants:
- a step never writes where records are, or will be written before it ends;
- nothing is written to a segment that is being sealed, or is;
- a sync of its own that failed may have been told of records that the writer's sync then misses:
  the writer asks `check` behind each sync, before it tells anybody.
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
ASK_AGAIN_BYTES = 256 * KIB  # until a partition that is not busy is looked at again
_REFUSED_NS = NS_PER_S


class Filler:
    """The writer calls `begin`, `reach` and `end`, the runner `step`."""

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
        # Before the first step, for what is appended meanwhile.
        self._margin_bytes = self._step_bytes
        # So much is filled, whenever half of it was used.
        self._ahead_bytes = min(AHEAD_BYTES_MAX, config.segment_bytes // 4)
        self._budget = budget
        self._durations_ns = counters.histogram("commit_duration_ns")
        self._committed_bytes = counters.counter("commit_bytes")
        self._share = FlushShare(self._durations_ns, runner.clock)
        self._reserve = SpaceReserve(disk, paths.folder, reserve_bytes=config.reserve_bytes)
        self._mutex = runner.mutex()
        # All of these are guarded by it.
        self._base_offset: int | None = None  # of the segment; None: nothing may be written
        self._begun_ns = 0
        self._begun_bytes = 0
        self._end = 0  # of the records, the writer's last word
        self._filled_end = 0  # zeros up to here, durable
        self._taken_bytes = 0  # of the budget
        self._ask_at = 0  # the writer asks for a step when it comes here
        self._filling: tuple[int, int] | None = None
        self._failure: DiskError | None = None
        self._done: Event | None = None  # set, for the writer, when the step has ended

    # What the writer calls.

    def begin(self, *, base_offset: int, end: int) -> None:
        """From now on that segment is written."""
        with self._mutex:
            self._base_offset = base_offset
            self._end = self._filled_end = self._begun_bytes = end
            self._ask_at = end + min(ASK_AGAIN_BYTES, self._step_bytes)
            self._begun_ns = self._clock.monotonic_ns()

    def reach(self, end: int) -> bool:
        """Records will be written up to there; whether a step should be made."""
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
        """Why the next sync of the writer will not be trusted."""
        return self._failure

    def check(self) -> None:
        """`DiskError` if the file cannot be trusted any more."""
        if self._failure is not None:
            raise Poisoned("sync", self._paths.folder, why=str(self._failure))

    def end(self) -> None:
        """Nothing is written to the segment any more when this returns. Idempotent."""
        while True:
            with self._mutex:
                self._base_offset = None
                if self._filling is None:
                    self._return_budget(0)
                    return
                done = self._done = self._done or self._runner.event()
            done.wait()

    # What the runner calls.

    def step(self) -> int | None:
        """Fill a little, if that is worth it now; ns to the next time, or None."""
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
        """One step; False if the store's budget is used up."""
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
        """Whether the writer wants a step, once. Under the mutex."""
        is_asking = self._end >= self._ask_at and self._left_bytes() > 0
        if is_asking:
            self._ask_at = OFFSET_MAX  # a step sets it anew
        return is_asking

    def _left_bytes(self) -> int:
        """How much should be filled, and is not. Under the mutex."""
        if not self._config.zero_fill or self._base_offset is None:
            return 0
        wanted = min(self._end + self._ahead_bytes, self._config.segment_bytes)
        start = self._filled_end if self._filled_end > self._end else self._end + self._margin_bytes
        return wanted - start

    def _load(self) -> Load:
        """Under the mutex."""
        age_ns = max(NS_PER_MS, self._clock.monotonic_ns() - self._begun_ns)
        flushes = max(1, self._durations_ns.snapshot().count)
        return Load(
            bytes_per_s=(self._end - self._begun_bytes) * NS_PER_S // age_ns,
            flush_bytes=self._committed_bytes.value // flushes,
            flush_share=self._share.measure(),
        )

    def _return_budget(self, used_bytes: int) -> None:
        """What was filled and is records now is spare no more. Under the mutex."""
        if self._taken_bytes > used_bytes:
            self._budget.give_back(self._taken_bytes - used_bytes)
            self._taken_bytes = used_bytes
