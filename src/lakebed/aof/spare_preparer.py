"""Decides when spare segment files are created ahead of need, and when they are zero-filled.

A spare is due once the active segment is a quarter full. It is filled in steps, and before each
step `decide_fill` decides whether to continue. Spares are optional: without a spare, the file of
the next segment is created when it is needed. So a disk error here is only logged, and spares are
removed when the disk is nearly full.
"""

from __future__ import annotations

import logging

from lakebed.aof.context import LogContext
from lakebed.aof.segment import Segment
from lakebed.aof.spares import FILL_STEP_BYTES, Spares
from lakebed.base.clock import NS_PER_S
from lakebed.base.commit import SpaceReserve
from lakebed.base.errors import DiskError, NoSpace
from lakebed.base.events import event
from lakebed.base.zero_fill import (
    WINDOW_NS,
    FillDecision,
    FlushShare,
    Load,
    SpareBudget,
    decide_fill,
)

_log = logging.getLogger(__name__)

REFUSED_NS = NS_PER_S  # how long a busy log waits to try again while the budget is short


class SparePreparer:
    """Prepares the spare segment files of one log.

    Only the maintenance task may call `step`, and only the thread that has just run a flush may
    call `is_newly_due`.
    """

    def __init__(self, context: LogContext, spares: Spares, budget: SpareBudget) -> None:
        self._state = context.state
        self._config = context.config
        self._clock = context.clock
        self._metrics = context.metrics
        self._spares = spares
        self._budget = budget
        self._share = FlushShare(context.metrics.commit_duration_ns, context.clock)
        self._reserve = SpaceReserve(
            context.disk, context.paths.folder, reserve_bytes=context.config.flush.reserve_bytes
        )
        self._due_segment: Segment | None = None  # used only by `is_newly_due`

    def is_newly_due(self) -> bool:
        """Returns True once for each active segment, when it is a quarter full."""
        active = self._state.chain.active
        if active is self._due_segment or active.end < _due_at(active):
            return False
        self._due_segment = active
        return True

    def step(self) -> int | None:
        """Creates one spare file, or zero-fills a part of one, if that is due.

        If the disk is nearly full, or if the log is not busy and the budget of spares is too small
        for the busy logs, deletes the spares instead. Returns the nanoseconds until this must be
        called again, or None if it need not be called.
        """
        if not self._is_due():
            return None
        try:
            return self._next_step()
        except NoSpace:
            self._spares.give_up()
        except DiskError as error:
            event(_log, "spare_failed", level=logging.WARNING, log=self._state.name, error=error)
        return None

    def _next_step(self) -> int | None:
        # Without this check, the space freed by removing a spare would be used to create another.
        segment_bytes = self._config.segment_bytes
        step_bytes = min(FILL_STEP_BYTES, segment_bytes)
        self._reserve.check(step_bytes if self._spares.count else step_bytes + segment_bytes)
        load = self._load()
        if self._budget.is_short and not load.is_busy:
            self._spares.give_up()
            return None
        spare_count = self._config.preallocate_segments
        if self._spares.prepare(count_max=spare_count, is_busy=load.is_busy):
            return 0
        spare = self._spares.unfilled()
        if spare is None or not self._config.zero_fill_spares:
            # Maintenance of the idle logs is woken, and they remove their spares.
            is_concerned = spare_count > 0 and self._budget.is_short
            return REFUSED_NS if is_concerned else None
        decision = decide_fill(load, has_begun=spare.filled > 0)
        if decision is FillDecision.NOW:
            self._spares.fill()
            return 0
        return WINDOW_NS if decision is FillDecision.LATER else None

    def _is_due(self) -> bool:
        with self._state.mutex:
            active = self._state.chain.active
            return active.end >= _due_at(active) and not self._state.is_closed

    def _load(self) -> Load:
        with self._state.mutex:
            active = self._state.chain.active
            age_ns = max(1, self._clock.wall_ns() - active.name.created_at)
            bytes_per_s = active.end * NS_PER_S // age_ns
        flushes = max(1, self._metrics.flush_operations.value)
        return Load(
            bytes_per_s=bytes_per_s,
            flush_bytes=self._metrics.durable_bytes.value // flushes,
            flush_share=self._share.measure(),
        )


def _due_at(segment: Segment) -> int:
    return segment.size // 4
