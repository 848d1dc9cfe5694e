"""The background work of an open partition: zero-filling, checkpoints, retention, compaction.

Producers that have been quiet for a long time are forgotten here too. `retention` and `compaction`
decide what to do, without I/O. Segments are rewritten while appends continue. The writer removes
segments, and adopts rewritten segments, between two commits.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Protocol

from lakebed.base.clock import NS_PER_MS, NS_PER_S
from lakebed.base.errors import Closed, DataError, LakebedError, NotFound, RetryError
from lakebed.base.events import event
from lakebed.base.runner import Mutex
from lakebed.keratin.compaction_pass import compact
from lakebed.keratin.config import TopicConfig
from lakebed.keratin.filler import Filler
from lakebed.keratin.format import HEADER_BYTES_MAX, OFFSET_MAX
from lakebed.keratin.index_file import load_time_index
from lakebed.keratin.log_file import decode_log_header
from lakebed.keratin.paths import PartitionPaths, time_index_path
from lakebed.keratin.producers import PRODUCERS_MAX
from lakebed.keratin.retention import Candidate, is_wanted, start_after_retention
from lakebed.keratin.segment_rewrite import RewrittenSegment
from lakebed.keratin.view import PartitionSegment, PartitionView

_log = logging.getLogger(__name__)
LOOK_EVERY_NS = 30 * NS_PER_S
_FORGET_NS_MIN, _FORGET_NS_MAX = NS_PER_S, 3600 * NS_PER_S
_PRODUCERS_MANY = (
    PRODUCERS_MAX * 5 // 4
)  # with more than this, the oldest are forgotten immediately

IsPinned = Callable[[str, int, int, int], bool]
"""Takes a topic, a partition and offsets `[first, next)`; returns whether to keep the messages."""


class MaintainedPartition(PartitionView, Protocol):
    """The operations of a partition that upkeep uses."""

    paths: PartitionPaths
    config: TopicConfig

    def now_ms(self) -> int: ...

    def truncate_before(self, offset: int) -> int: ...

    def exchange(self, rewritten: RewrittenSegment) -> None: ...

    def checkpoint_if_due(self) -> None: ...

    @property
    def producer_count(self) -> int: ...

    def forget_producers(self) -> int: ...


class Upkeep:
    """Runs the background work of one partition.

    Only the runner may call `step`, from one thread at a time. The writer calls `note_sealed`.
    """

    def __init__(
        self,
        partition: MaintainedPartition,
        filler: Filler,
        *,
        is_pinned: IsPinned | None,
        pin_mutex: Mutex,
    ) -> None:
        self._partition = partition
        self._filler = filler
        self._look_at_ns = 0  # when retention and compaction are due
        self._forget_at_ns = 0  # when old producers are forgotten next
        self._is_pinned = is_pinned
        self._pin_mutex = pin_mutex
        self._candidates: dict[int, Candidate] = {}  # sealed segments, by base offset
        self._compacted_base = -1  # the newest segment that was compacted

    def note_sealed(self) -> None:
        """Makes retention and compaction due now, because a segment was sealed."""
        self._look_at_ns = 0

    def step(self) -> int | None:
        """Runs the background work that is due.

        Returns the ns until the next step, or None if the next step waits for a wake-up.
        """
        now_ns = self._partition.runner.clock.monotonic_ns()
        delays_ns = [self._filler.step(), self._forget_if_due(now_ns)]
        self._partition.checkpoint_if_due()
        delays_ns.append(self._look_if_due(now_ns))
        return min((delay_ns for delay_ns in delays_ns if delay_ns is not None), default=None)

    def _forget_if_due(self, now_ns: int) -> int | None:
        """Forgets old producers if that is due; returns the ns until it is due again.

        Returns None if there are no producers.
        """
        partition = self._partition
        count = partition.producer_count
        if not count:
            return None
        if now_ns < self._forget_at_ns and count <= _PRODUCERS_MANY:
            return self._forget_at_ns - now_ns
        every_ns = partition.config.producer_ms * NS_PER_MS // 8
        every_ns = min(max(every_ns, _FORGET_NS_MIN), _FORGET_NS_MAX)
        self._forget_at_ns = now_ns + every_ns
        try:
            partition.forget_producers()
        except LakebedError as error:
            _log.info("%s: old producers could not be forgotten: %s", partition.name, error)
        return every_ns

    def _look_if_due(self, now_ns: int) -> int | None:
        if now_ns < self._look_at_ns:
            return self._look_at_ns - now_ns
        config = self._partition.config
        delay_ns = LOOK_EVERY_NS if is_wanted(config) or config.compact else None
        self._look_at_ns = OFFSET_MAX if delay_ns is None else now_ns + delay_ns
        try:
            self._look()
        except BaseException:
            self._look_at_ns = 0
            raise
        return delay_ns

    def _look(self) -> None:
        """Runs retention and compaction, if the topic's settings request them.

        `RetryError` and `Closed` are only logged; other errors are raised.
        """
        partition = self._partition
        try:
            if is_wanted(partition.config):
                self.retain()
            if partition.config.compact:
                self.compact()
        except (RetryError, Closed) as error:
            _log.info("%s: upkeep is postponed: %s", partition.name, error)

    def compact(self) -> int:
        """Removes messages that are replaced by newer ones with the same key, and old tombstones.

        Returns the number of segments that changed. Does nothing while a sealed segment is pinned,
        or if no segment was sealed since the last pass: without new messages only old tombstones
        could be removed, and that can wait. The first call after the partition was opened always
        makes a pass.
        """
        partition = self._partition
        sealed = [info for info in partition.segments() if info.is_sealed]
        newest = sealed[-1].base_offset if sealed else -1
        if newest <= self._compacted_base or any(map(self._is_held, sealed)):
            return 0
        count = 0
        for rewritten in compact(
            partition.disk,
            partition.paths,
            sealed,
            now_ms=partition.now_ms(),
            tombstone_ms=partition.config.tombstone_ms,
            index_stride_bytes=partition.config.index_stride_bytes,
        ):
            partition.exchange(rewritten)
            count += 1
        self._compacted_base = newest
        event(_log, "compaction", partition=partition.name, segments=count)
        return count

    def retain(self) -> int:
        """Removes the segments that exceed the retention limits; returns how many were removed.

        A pinned segment and all later ones are kept.
        """
        partition = self._partition
        segments = partition.segments()
        candidates = self._find_candidates(segments)
        with self._pin_mutex:  # no pin of this process comes in between
            start = start_after_retention(
                candidates,
                config=partition.config,
                active_bytes=segments[-1].end,
                now_ms=partition.now_ms(),
                is_needed=self._is_held,
            )
            if start is None:
                return 0
            removed_count = partition.truncate_before(start)
        event(
            _log, "retention", partition=partition.name, start_offset=start, segments=removed_count
        )
        return removed_count

    def _is_held(self, segment: Candidate | PartitionSegment) -> bool:
        """Returns whether the segment is pinned and must not change."""
        if self._is_pinned is None:
            return False
        paths = self._partition.paths
        return self._is_pinned(paths.topic, paths.number, segment.base_offset, segment.next_offset)

    def _find_candidates(self, segments: Sequence[PartitionSegment]) -> list[Candidate]:
        previous, self._candidates = self._candidates, {}
        for info, following in pairwise(segments):
            candidate = previous.get(info.base_offset)
            if candidate is None or candidate.next_offset != info.next_offset:
                newest_ms, sealed_ms = self._newest_ms(info), self._created_ms(following)
                candidate = Candidate(
                    info.base_offset, info.next_offset, info.end, newest_ms, sealed_ms
                )
            self._candidates[info.base_offset] = candidate._replace(size=info.end)
        return list(self._candidates.values())

    def _newest_ms(self, info: PartitionSegment) -> int | None:
        """Returns the segment's largest timestamp in ms.

        Returns None if its time index is missing, damaged or incomplete.
        """
        try:
            path = time_index_path(info.path)
            times = load_time_index(self._partition.disk, path, base_offset=info.base_offset)
        except (NotFound, DataError):
            return None
        is_whole = times and times[-1].relative_offset == info.next_offset - 1 - info.base_offset
        return times[-1].timestamp_ms if is_whole else None

    def _created_ms(self, info: PartitionSegment) -> int:
        """Returns when the segment was created, in ms since 1970.

        Returns the current time if the header of its log is damaged.
        """
        with self._partition.disk.open(info.path) as file:
            header = file.pread(0, HEADER_BYTES_MAX)
        try:
            return decode_log_header(
                header, path=info.path, base_offset=info.base_offset
            ).created_ms
        except DataError:
            return self._partition.now_ms()
