"""Schedules the moves of one log's segments between tiers: which job is next, and when it is due.

The coordinator's workers call this module. `tier_plan` chooses the segment, and `segment_tiering`
moves it. A log with tiering off has no scheduler: its segments are moved only on request.

- Compression and uploads wait until `tiering_policy` allows them.
- A failed job is retried with growing delays. An upload that Tier 2 refused, because of the
  credentials or a missing permission, is not retried until an operator requests it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from random import Random

from lakebed.aof.context import LogContext
from lakebed.aof.manifest.state import SegmentState
from lakebed.aof.manifest_recorder import ManifestRecorder
from lakebed.aof.tiers.admission import Admission
from lakebed.aof.tiers.budget import TierBudget
from lakebed.aof.tiers.config import TierConfig
from lakebed.aof.tiers.errors import Cancelled
from lakebed.aof.tiers.hydration import HydrationQueue, HydrationRequest, Priority
from lakebed.aof.tiers.log_tiers import LogTiers
from lakebed.aof.tiers.metrics import TierMetrics
from lakebed.aof.tiers.tier_plan import (
    Circumstances,
    eviction_due_ns,
    next_compression,
    next_due_ns,
    next_upload,
    tier0_evictions,
    tier1_evictions,
    waiting,
)
from lakebed.aof.tiers.tiering_throttle import TieringThrottle
from lakebed.aof.tiers.upkeep import RETRY
from lakebed.aof.view import SegmentInfo
from lakebed.base.clock import NS_PER_S
from lakebed.base.errors import Busy, Closed, LakebedError
from lakebed.base.events import event
from lakebed.base.retry import Backoff

_log = logging.getLogger(__name__)
IN_USE_NS = 60 * NS_PER_S
"""The time after a read in which a segment is not evicted to make room for another one."""
NOTED_NS = NS_PER_S
"""The time of a segment's last read is updated at most once in this period."""

Pick = Callable[..., SegmentState | None]


class TierScheduler:
    """Schedules the moves of one log's segments between tiers. Thread-safe."""

    def __init__(
        self,
        context: LogContext,
        recorder: ManifestRecorder,
        tiers: LogTiers,
        *,
        config: TierConfig,
        budget: TierBudget,
        metrics: TierMetrics,
        random: Random,
        is_pinned: Callable[[int], bool],
        wake: Callable[[], None],
        watch: Callable[[], None],
    ) -> None:
        """`wake` makes the coordinator look for work now; `watch` makes it do so in the next
        pause between appends."""
        self.name = context.state.name
        self._state = context.state
        self._clock = context.clock
        self._notifier = context.notifier
        self._recorder = recorder
        self._tiers = tiers
        self._metrics = metrics
        self._random = random
        self._is_pinned = is_pinned
        self._wake = wake
        self._watch = watch
        self._hydrations = HydrationQueue(context.runner.mutex())
        self.admission = Admission(
            context, recorder, config=config, budget=budget, metrics=metrics, wake=wake
        )
        self._pace = TieringThrottle(context, self.admission, config.pacing())
        # Guarded by the log's mutex.
        self._used_at_ns: dict[int, int] = {}
        self._retry_at_ns: dict[int, int] = {}
        self._backoffs: dict[int, Backoff] = {}
        self._is_reconciled = False  # used only by the upkeep, like the next field
        self._upkeep_backoff = Backoff(RETRY, random)
        tiers.cold.on_failure = self._on_warm_file_failed
        tiers.moves.on_released = recorder.on_chunk_sealed = wake
        self.measure()

    # Changes of the log.

    def on_sealed(self) -> None:
        """Wakes the workers after a segment was sealed, so that they compress it.

        If compression is not allowed now, the workers are woken when it is, for example in the next
        pause between appends.
        """
        self.measure()
        if 0 in self.times_due_ns():
            self._wake()
        else:
            self._watch()

    # Reads.

    def on_used(self, info: SegmentInfo) -> None:
        """Records that the segment was read now; if it is not in Tier 0, queues it to be restored.

        In that case also queues the next segment, if that is not in Tier 0 either.
        """
        now_ns = self._clock.monotonic_ns()
        last_ns = self._used_at_ns.get(
            info.segment_id
        )  # read without the mutex, because this method is called for every read
        is_noted = last_ns is not None and now_ns - last_ns < NOTED_NS
        if is_noted and (not info.tier or info.segment_id in self._hydrations):
            return
        with self._state.mutex:
            self._used_at_ns[info.segment_id] = now_ns
            following = self._state.chain.find(info.segment_id + 1)
        if info.tier:
            self.request(info.segment_id, Priority.READ_MISS)
            if following is not None and following.tier:
                self.request(following.segment_id, Priority.PREFETCH)

    def on_followed(self, segment_id: int) -> None:
        """Queues the segment in which a follower starts to be restored, if it is not in Tier 0."""
        with self._state.mutex:
            info = self._state.chain.find(segment_id)
        if info is not None and info.tier:
            self.request(info.segment_id, Priority.FOLLOWER)

    def request(self, segment_id: int, priority: Priority) -> None:
        """Queues a segment to be restored to Tier 0 when there is room."""
        self._hydrations.add(segment_id, priority, now_ns=self._clock.monotonic_ns())
        self._wake()
        self._watch()

    def _on_warm_file_failed(self, segment_id: int) -> None:
        self.request(segment_id, Priority.RECOVERY)

    @property
    def queue_depth(self) -> int:
        """The number of segments that wait to be restored to Tier 0."""
        return len(self._hydrations)

    # Jobs: each moves one segment, and returns whether there was one to move.

    def compress_next(self) -> bool:
        return self._run(next_compression, self._compress)

    def upload_next(self) -> bool:
        return self._run(next_upload, self._tiers.moves.upload)

    def hydrate_next(self) -> bool:
        request = self._hydrations.take()
        if request is None:
            return False
        segment_id, priority, requested_ns = request
        with self._state.mutex:
            info = self._state.chain.find(segment_id)
        if info is None or not info.tier:
            return True
        if not self._may_hydrate(info.end or 0, request):
            if priority is not Priority.PREFETCH:  # a prefetch is dropped
                self._hydrations.add(segment_id, priority, now_ns=requested_ns)
            return priority is Priority.PREFETCH
        with self._state.mutex:
            self._used_at_ns[segment_id] = max(self._used_at_ns.get(segment_id, 0), requested_ns)
        if self._do(segment_id, self._tiers.moves.hydrate):
            self._metrics.hydration_latency_ns.observe(self._clock.monotonic_ns() - requested_ns)
        return True

    def _may_hydrate(self, size: int, request: HydrationRequest) -> bool:
        """Returns whether a segment of that size may be restored to Tier 0 now.

        True if there is enough free space in addition to the space that is kept for bursts of
        appends. In a pause, a segment that is not a prefetch may also use the space for bursts, if
        segments that were not read recently can be evicted afterwards to free that space again.
        """
        excess = self.admission.tier0_excess(is_pause=True, more_bytes=size)
        if excess <= 0:
            return True
        is_urgent = request.priority is not Priority.PREFETCH and self._pace.is_pause
        if not is_urgent or self.admission.tier0_excess(is_pause=False, more_bytes=size) > 0:
            return False
        circumstances = self._circumstances()
        used_at_ns = circumstances.used_at_ns
        # The segment may have been read again since it was first requested.
        unused_ns = max(request.requested_ns, used_at_ns.get(request.segment_id, 0)) - IN_USE_NS
        unused = [
            state
            for state in self._states()
            if used_at_ns.get(state.segment_id, unused_ns) <= unused_ns
        ]
        leaving = tier0_evictions(unused, circumstances, excess_bytes=excess)
        return sum(state.durable_bytes for state in leaving) >= excess

    def upkeep(self) -> int | None:
        """Evicts segments that exceed the budgets, and uploads the manifest log's sealed chunks.

        Also checks that Tier 2 has all objects of the log, until this check has succeeded once.
        Returns the nanoseconds until failed work must be retried, or None if no work failed.
        """
        jobs = (self._reconcile, self._evict, self._archive_chunks)
        failures = [error for job in jobs if (error := _failure(job)) is not None]
        failures = [error for error in failures if not isinstance(error, Cancelled)]
        self.measure()
        if self.room_due_ns():
            self._watch()
        if not failures:
            self._upkeep_backoff.reset()
            return eviction_due_ns(self._states(), self._circumstances())
        event(
            _log, "tier_upkeep_failed", level=logging.WARNING, log=self._state.name,
            error=failures[0],
        )  # fmt: skip
        return self._upkeep_backoff.next_ns()

    def times_due_ns(self) -> list[int]:
        """Returns the nanoseconds until the next compression, upload and hydration may be due.

        0 means that one is due now. Kinds without a waiting segment are left out.
        """
        hydration = [self._pace.pause_due_ns()] if len(self._hydrations) else []
        return [*self._times_due_ns(self._states(), self._circumstances()), *hydration]

    def room_due_ns(self) -> int | None:
        """Returns the nanoseconds until a segment must be evicted from Tier 0.

        Returns 0 if one must be evicted now, and None if none must or can be evicted.
        """
        if self._evictions(is_pause=False):
            return 0
        return self._pace.pause_due_ns() if self._evictions(is_pause=True) else None

    def due_ns(self) -> int | None:
        """Returns the nanoseconds until the next compression, upload or retry may be due, or None.

        Jobs that are due now are not considered.
        """
        states, circumstances = self._states(), self._circumstances()
        delays = (*self._times_due_ns(states, circumstances), next_due_ns(states, circumstances))
        return min(
            (delay for delay in delays if delay), default=None
        )  # a job that is due now is for another kind of worker

    def measure(self) -> None:
        """Updates the sizes and counts of this log's segments in each tier, and its metrics.

        Also updates the list of the segments that wait to be compressed or uploaded.
        """
        journal = self._recorder.journal
        if journal is not None:
            states = list(journal.index().segments())
            self.admission.measure(states)
            self._pace.note(waiting(states))
            segment_ids = {state.segment_id for state in states}
            with self._state.mutex:
                for segment_id in self._used_at_ns.keys() - segment_ids:
                    del self._used_at_ns[segment_id]
            self._metrics.measured(states, queue_depth=len(self._hydrations))

    # Helpers.

    def _states(self) -> list[SegmentState]:
        """Returns the states of all segments from the manifest log.

        Returns an empty list if the manifest log is off or the log is closed, because no segment
        can be moved then.
        """
        journal = self._recorder.journal
        if journal is None or self._state.is_closed:
            return []
        return list(journal.index().segments())

    def _times_due_ns(
        self, states: Sequence[SegmentState], circumstances: Circumstances
    ) -> list[int]:
        picked = (next_compression(states, circumstances), next_upload(states, circumstances))
        return [self._pace.time_due_ns(state.segment_id) for state in picked if state is not None]

    def _compress(self, segment_id: int) -> None:
        moves = self._tiers.moves
        give_way = self._pace.give_way(segment_id, moves.should_stop)
        moves.compress(segment_id, give_way=give_way)

    def _run(self, pick: Pick, move: Callable[[int], object]) -> bool:
        state = pick(self._states(), self._circumstances())
        if state is None or not self._pace.is_time(state.segment_id):
            return False
        self._do(state.segment_id, move)
        return True

    def _do(self, segment_id: int, move: Callable[[int], object]) -> bool:
        """Moves one segment, and returns whether that succeeded. Schedules a retry if it failed."""
        try:
            error = self._try(segment_id, move)
        except (Busy, Closed):  # another thread moves it, or the log was closed
            return False
        if error is not None:
            if self._has_left(segment_id):
                self._wake()  # its object may have to be deleted
            elif not isinstance(error, Cancelled):
                self._put_off(segment_id, error)
            return False
        with self._state.mutex:
            self._retry_at_ns.pop(segment_id, None)
            self._backoffs.pop(segment_id, None)
        self.measure()
        self._notifier.notify()
        self._wake()
        return True

    def _try(self, segment_id: int, move: Callable[[int], object]) -> LakebedError | None:
        with self._tiers.moves.claim(segment_id, is_worker=True):
            return _failure(lambda: move(segment_id))

    def _has_left(self, segment_id: int) -> bool:
        """Returns whether retention has removed the segment from the log."""
        with self._state.mutex:
            return self._state.chain.find(segment_id) is None

    def _put_off(self, segment_id: int, error: LakebedError) -> None:
        self._metrics.job_failures.add()
        name = self._state.name
        with self._state.mutex:
            backoff = self._backoffs.setdefault(segment_id, Backoff(RETRY, self._random))
            delay_ns = backoff.next_ns()
            self._retry_at_ns[segment_id] = self._clock.monotonic_ns() + delay_ns
        event(
            _log, "tier_job_put_off", level=logging.WARNING, log=name, segment_id=segment_id,
            delay_ns=delay_ns, error=error,
        )  # fmt: skip

    def _evict(self) -> None:
        moves = self._tiers.moves
        for state in self._evictions(is_pause=self._pace.is_pause):
            self._do(state.segment_id, moves.evict)
        excess = self.admission.tier1_excess()
        circumstances = self._circumstances()
        for state in tier1_evictions(self._states(), circumstances, excess_bytes=excess):
            self._do(state.segment_id, moves.evict_warm)

    def _evictions(self, *, is_pause: bool) -> list[SegmentState]:
        excess = self.admission.tier0_excess(is_pause=is_pause)
        if excess <= 0:
            return []
        return list(tier0_evictions(self._states(), self._circumstances(), excess_bytes=excess))

    def _reconcile(self) -> None:
        """Checks, once after the log is opened, that Tier 2 has all objects that it should have.

        A missing object is uploaded again if there is a local copy.
        """
        journal = self._recorder.journal
        if self._is_reconciled or journal is None:
            return
        for state in self._tiers.doubtful(journal.index().segments()):
            with self._tiers.moves.claim(state.segment_id, is_worker=True):
                self._tiers.moves.repair(state.segment_id)
        self._tiers.chunks(journal).reconcile(journal)
        self._is_reconciled = True

    def _archive_chunks(self) -> None:
        journal = self._recorder.journal
        if journal is not None:
            self._tiers.chunks(journal).step(journal)

    def _circumstances(self) -> Circumstances:
        claimed = self._tiers.moves.claimed()
        with self._state.mutex:
            return Circumstances(
                claimed=claimed,
                retry_at_ns=dict(self._retry_at_ns),
                used_at_ns=dict(self._used_at_ns),
                is_pinned=self._is_pinned,
                now_ns=self._clock.monotonic_ns(),
            )


def _failure(work: Callable[[], object]) -> LakebedError | None:
    try:
        work()
    except LakebedError as error:
        return error
    return None
