"""Prepares segments for archiving, before retention removes them from the log.

A segment that is only in Tier 0 needs no preparation: `retention_worker` moves its file to
`archive/`. If a segment also has copies in colder tiers, those copies are deleted when retention
removes the segment, so the records in its Tier 0 file are first verified. If that file is damaged
or missing, the segment is restored into the archive from the warmest intact copy. If no copy is
intact, the segment stays in the log.
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
    """Prepares the segments of one log for archiving.

    The maintenance task, which runs retention, calls `request`; the tier upkeep task calls `step`.
    """

    def __init__(
        self,
        context: LogContext,
        recorder: ManifestRecorder,
        moves: SegmentTiering,
        *,
        on_ready: Callable[[], None],
    ) -> None:
        """`on_ready` is called after each segment is prepared, so that retention runs again."""
        self._disk = context.disk
        self._state = context.state
        self._recorder = recorder
        self._moves = moves
        self._on_ready = on_ready
        self._mutex = context.runner.mutex()  # guards the fields below
        self._requested: dict[int, None] = {}  # segment ids, in order of request
        self._archived: dict[int, ArchivedName] = {}
        self._whole: set[int] = set()  # segments whose Tier 0 file was verified

    @property
    def is_owed(self) -> bool:
        """Whether a segment was requested and is not prepared yet."""
        with self._mutex:
            return bool(self._requested)

    def is_ready(self, info: SegmentInfo) -> bool:
        """Returns whether retention may remove the segment from the log.

        True if the archive has the segment, or if the segment's Tier 0 file can be moved to the
        archive: the file was verified, or no colder tier has a copy.
        """
        with self._mutex:
            is_archived = info.segment_id in self._archived
            is_whole = info.segment_id in self._whole
        return is_archived or (not info.tier and (is_whole or not self._has_colder(info)))

    def request(self, segment_id: int) -> None:
        """Makes the next `step` prepare the segment."""
        with self._mutex:
            self._requested[segment_id] = None

    def is_kept(self, segment_id: int) -> bool:
        """Returns whether `step` restored the segment into the archive, or found it there."""
        with self._mutex:
            return segment_id in self._archived

    def forget(self, segment_id: int) -> None:
        """Drops everything known about a segment that was removed from the log and the disk."""
        with self._mutex:
            self._requested.pop(segment_id, None)
            self._whole.discard(segment_id)
            self._archived.pop(segment_id, None)

    def step(self) -> None:
        """Prepares the requested segments for archiving, in the order of their requests.

        If a segment cannot be prepared, raises the error; that segment and those requested after it
        stay requested.
        """
        with self._mutex:
            requested = list(self._requested)
        for segment_id in requested:
            with self._moves.claim(segment_id, is_worker=True):
                self._make_ready(segment_id)
            with self._mutex:
                self._requested.pop(segment_id, None)
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
        """Returns whether the segment has an undamaged Tier 0 file; reads all its records."""
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
