"""Removes the segments that retention decides on: deletes or archives their files.

Segments are removed one at a time, oldest first: a segment is first removed from the log, then its
file is removed durably, and only then the next segment is removed. So a crash or an error leaves no
gap between the files on disk. A file that a crash left is removed after the log is opened again.

A segment that is to be archived is removed from the log only when `archiver` reports that the
archive has it or can get it, because the copies in all other tiers are then deleted.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Sequence

from lakebed.aof.archiver import Archiver
from lakebed.aof.context import LogContext
from lakebed.aof.manifest_recorder import ManifestRecorder
from lakebed.aof.paths import ArchivedName, SegmentName
from lakebed.aof.recovery import read_footer
from lakebed.aof.retention import HELD_LOOK_NS, SealedSegment, expired, is_wanted, next_look_ns
from lakebed.aof.sparse_index import remove_index
from lakebed.aof.transitions import Transitions
from lakebed.aof.view import SegmentInfo
from lakebed.base.clock import NS_PER_MS, NS_PER_S
from lakebed.base.errors import Busy, DiskError, LakebedError, NotFound
from lakebed.base.events import event
from lakebed.base.runner import Mutex

_RETRY_NS = NS_PER_S  # after a file could not be removed
_log = logging.getLogger(__name__)


class RetentionWorker:
    """Runs retention for one log. Only the manager's maintenance task may use it."""

    def __init__(
        self,
        context: LogContext,
        transitions: Transitions,
        recorder: ManifestRecorder,
        *,
        pin_mutex: Mutex,
        on_owed: Callable[[], None],
    ) -> None:
        """`on_owed` is called after each step; it must start the tier upkeep if that has work."""
        self._pin_mutex = pin_mutex
        self._recorder = recorder
        self._on_owed = on_owed
        self.archiver: Archiver | None = None  # set once, before the first step
        self._disk = context.disk
        self._paths = context.paths
        self._clock = context.clock
        self._notifier = context.notifier
        self._state = context.state
        self._config = context.config.retention
        self._transitions = transitions
        self._facts: dict[int, SealedSegment] = {}
        self._left: list[SegmentInfo] = []  # removed from the log, not yet from disk; at most one
        self._retired = context.counters.counter("aof_segments_retired")
        self._retired_bytes = context.counters.counter("aof_segments_retired_bytes")

    def step(self, *, is_needed: Callable[[int], bool]) -> int | None:
        """Removes expired segments, oldest first, until `is_needed` returns True for a segment.

        If a segment cannot be removed, logs the error and stops. Returns the nanoseconds until the
        next check, or None if none is scheduled.
        """
        with self._state.mutex:
            sealed = list(self._state.chain.sealed)
        expired_infos, delay_ns = self._plan(sealed, is_needed)
        if self._config.archive:
            expired_infos = self._ready(expired_infos)
        try:
            while self._left or expired_infos:
                if not self._left:
                    with self._pin_mutex:  # no pin or follower of this process comes in between
                        if is_needed(expired_infos[0].segment_id):
                            return HELD_LOOK_NS
                        self._left = self._leave(expired_infos[:1])
                    expired_infos = expired_infos[1:]
                    self._notifier.notify()
                if not self._left:
                    break
                self._recorder.commit()  # a file that is missing without a record counts as lost
                self._remove(self._left[0])
                self._left = []
        except LakebedError as error:
            event(_log, "retire_failed", level=logging.ERROR, log=self._state.name, error=error)
            return _RETRY_NS if delay_ns is None else min(delay_ns, _RETRY_NS)
        finally:
            self._on_owed()
        return delay_ns

    def _ready(self, expired_infos: Sequence[SegmentInfo]) -> list[SegmentInfo]:
        """Returns the segments before the first that is not ready to be archived.

        Requests the preparation of every segment that is not ready.
        """
        assert self.archiver is not None, "the log is not started"
        unready = [info.segment_id for info in expired_infos if not self.archiver.is_ready(info)]
        for segment_id in unready:
            self.archiver.request(segment_id)
        return [info for info in expired_infos if not unready or info.segment_id < unready[0]]

    def _may_leave(self, info: SegmentInfo) -> bool:
        """Returns whether the segment may be removed from the log now.

        False if it is to be archived but not ready for that. This repeats the check of `_ready`,
        because the segment may have moved to another tier since.
        """
        return not self._config.archive or (
            self.archiver is not None and self.archiver.is_ready(info)
        )

    def _leave(self, expired_infos: Sequence[SegmentInfo]) -> list[SegmentInfo]:
        """Removes the segments from the log, and returns those that it removed.

        A segment stays in the log if its removal cannot be recorded in the manifest log, or if it
        is to be archived and no longer ready for that.
        """
        left: list[SegmentInfo] = []
        try:
            with self._state.mutex:
                if self._state.is_closed and self._recorder.journal is None:
                    return left  # the removal could not be recorded in the manifest log
                for planned in expired_infos:
                    # The segment may have moved to another tier since.
                    info = self._state.chain.find(planned.segment_id)
                    if info is not None and not self._may_leave(info):
                        break
                    if info is not None:
                        size = self._facts[info.segment_id].size
                        self._transitions.retire(info, durable_bytes=size)
                        left.append(info)
        except (Busy, DiskError) as error:
            event(_log, "retire_failed", level=logging.ERROR, log=self._state.name, error=error)
        return left

    def _plan(
        self, sealed: Sequence[SegmentInfo], is_needed: Callable[[int], bool]
    ) -> tuple[list[SegmentInfo], int | None]:
        """Returns the segments to remove, and the nanoseconds until the next check.

        The latter is None if no check is scheduled.
        """
        if not is_wanted(self._config):
            return [], None
        now_ns = self._clock.wall_ns()
        facts = [self._fact(info) for info in sealed]
        expired_ids = expired(facts, config=self._config, now_ns=now_ns, is_needed=is_needed)
        delay_ns = next_look_ns(facts[len(expired_ids) :], config=self._config, now_ns=now_ns)
        return [info for info in sealed if info.segment_id in expired_ids], delay_ns

    def _remove(self, info: SegmentInfo) -> None:
        """Durably deletes a segment's local files, or moves the segment to the archive."""
        fact = self._facts[info.segment_id]
        is_archived = self.archiver is not None and self.archiver.is_kept(info.segment_id)
        self._remove_warm(info)
        if not info.tier:  # the tier upkeep deletes an object
            remove_index(self._disk, info.path)
            with contextlib.suppress(NotFound):
                if self._config.archive and not is_archived:
                    # The fact may be older than the file, if the segment was in a colder tier.
                    name = ArchivedName(info.segment_id, self._read_fact(info).sealed_at)
                    self._disk.rename(info.path, self._paths.archived(name))
                else:
                    self._disk.unlink(info.path)
        if self._config.archive:
            self._disk.sync_folder(self._paths.archive)
        self._disk.sync_folder(self._paths.segments)
        del self._facts[info.segment_id]
        if self.archiver is not None:
            self.archiver.forget(info.segment_id)
        self._retired.add()
        self._retired_bytes.add(fact.size)

    def _remove_warm(self, info: SegmentInfo) -> None:
        cold = self._recorder.cold
        name = None if cold is None else cold.warm_names().get(info.segment_id)
        if cold is not None and name is not None:
            with contextlib.suppress(NotFound):
                self._disk.unlink(cold.warm_path(name))

    def _fact(self, info: SegmentInfo) -> SealedSegment:
        """Returns the size and sealing time of a segment, from its footer or the manifest log.

        A segment without a valid footer counts as sealed when it was created.
        """
        if info.segment_id not in self._facts:
            try:
                self._facts[info.segment_id] = self._read_fact(info)
            except NotFound:  # it is in a colder tier, or was just evicted
                self._facts[info.segment_id] = self._recorded_fact(info)
        return self._facts[info.segment_id]

    def _read_fact(self, info: SegmentInfo) -> SealedSegment:
        if info.tier:
            raise NotFound(f"{info.path}: the segment is not in Tier 0")
        name = SegmentName(info.segment_id, info.base_offset, info.created_at)
        with self._disk.open(info.path) as file:
            footer = read_footer(file, info.path, name)
            size = file.size() if footer is None else footer.durable_bytes
        sealed_at = info.created_at if footer is None else footer.sealed_at
        return SealedSegment(info.segment_id, size, sealed_at)

    def _recorded_fact(self, info: SegmentInfo) -> SealedSegment:
        """Returns the size and sealing time of a segment from the manifest log.

        A segment that is not in the manifest log counts as sealed now.
        """
        journal = self._recorder.journal
        state = None if journal is None else journal.state(info.segment_id)
        sealed_at = self._clock.wall_ns() if state is None else state.sealed_at_ms * NS_PER_MS
        return SealedSegment(info.segment_id, info.end or 0, sealed_at)
