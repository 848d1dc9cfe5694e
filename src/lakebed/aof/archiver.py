"""Brings the bytes of segments that retention gives up into `archive/`, before they leave the log.

A segment that is in Tier 0 alone is moved there as it is, by `retention_worker`. One that has
copies in colder tiers loses them with its retirement, so first of all its bytes must be known to
be whole: those in Tier 0 are read to their end, and if they are damaged or not there, the segment
is restored into the archive from the warmest copy that is good. While none is, it stays in the log.
"""

from __future__ import annotations

from collections.abc import Callable

from lakebed.aof.context import LogContext
from lakebed.aof.manifest.state import Residency
from lakebed.aof.manifest_recorder import ManifestRecorder
from lakebed.aof.paths import ArchivedName
from lakebed.aof.tiers.segment_tiering import SegmentTiering
from lakebed.aof.tiers.warm_file import check_segment_file
from lakebed.aof.view import SegmentInfo
from lakebed.base.errors import DataError, NotFound

_COLDER = Residency.TIER1 | Residency.TIER2


class Archiver:
    """Of one log. Retention asks, from the maintenance; the upkeep of the tiers does the work."""

    def __init__(
        self,
        context: LogContext,
        recorder: ManifestRecorder,
        moves: SegmentTiering,
        *,
        on_ready: Callable[[], None],
    ) -> None:
        """`on_ready` has retention look again."""
        self._disk = context.disk
        self._state = context.state
        self._recorder = recorder
        self._moves = moves
        self._on_ready = on_ready
        self._mutex = context.runner.mutex()  # guards the rest
        self._wanted: dict[int, None] = {}  # in the order they were asked for
        self._archived: dict[int, ArchivedName] = {}
        self._whole: set[int] = set()  # in Tier 0

    @property
    def is_owed(self) -> bool:
        """Whether there is work for `step`."""
        with self._mutex:
            return bool(self._wanted)

    def is_ready(self, info: SegmentInfo) -> bool:
        """Whether the segment may leave the log: its bytes are in the archive, or will be moved
        there from Tier 0."""
        with self._mutex:
            is_known = info.segment_id in self._archived
            is_whole = info.segment_id in self._whole
        return is_known or (not info.tier and (is_whole or not self._has_colder(info)))

    def request(self, segment_id: int) -> None:
        """Make that segment ready."""
        with self._mutex:
            self._wanted[segment_id] = None

    def forget(self, segment_id: int) -> bool:
        """The segment has left the log; whether the archive has it already."""
        with self._mutex:
            self._wanted.pop(segment_id, None)
            self._whole.discard(segment_id)
            return self._archived.pop(segment_id, None) is not None

    def step(self) -> None:
        """Make ready what is wanted, in its order. What fails is raised, and stays wanted."""
        with self._mutex:
            wanted = list(self._wanted)
        for segment_id in wanted:
            with self._moves.claim(segment_id, is_worker=True):
                self._make_ready(segment_id)
            with self._mutex:
                self._wanted.pop(segment_id, None)
            self._on_ready()

    def _make_ready(self, segment_id: int) -> None:
        with self._state.mutex:
            info = self._state.chain.find(segment_id)
        if info is None:
            return
        if self._is_whole(info):
            with self._mutex:
                self._whole.add(segment_id)
            return
        name = self._moves.archive(segment_id)
        with self._mutex:
            self._archived[segment_id] = name

    def _is_whole(self, info: SegmentInfo) -> bool:
        """Whether its file in Tier 0 is there and good to the last byte."""
        if info.tier:
            return False
        try:
            check_segment_file(self._disk, info.path)
        except (NotFound, DataError):
            return False
        return True

    def _has_colder(self, info: SegmentInfo) -> bool:
        journal = self._recorder.journal
        state = None if journal is None else journal.state(info.segment_id)
        return state is not None and bool(state.residency & _COLDER)
