"""Prepares segments to be archived by retention, and deletes the objects of removed segments.

This is necessary whether tiering is on or off. Retention itself does not do it, because retention
runs in the maintenance task of all logs, which must not wait for Tier 2.
"""

from __future__ import annotations

import logging
from random import Random

from lakebed.aof.archiver import Archiver
from lakebed.aof.context import LogContext
from lakebed.aof.manifest.format import MANIFEST_ITSELF
from lakebed.aof.manifest.state import Pending
from lakebed.aof.manifest_recorder import ManifestRecorder
from lakebed.aof.tiers.errors import Cancelled
from lakebed.aof.tiers.segment_tiering import SegmentTiering
from lakebed.base.errors import LakebedError
from lakebed.base.events import event
from lakebed.base.retry import Backoff, RetryPolicy

_log = logging.getLogger(__name__)
RETRY = RetryPolicy(delay_ms_first=1_000.0, delay_ms_max=60_000.0)
"""The delays between attempts. Each attempt includes the retries of `retrying_store`."""


class LogUpkeep:
    """Deletes the queued objects of one log, and prepares its segments to be archived.

    Runs in the coordinator's upkeep task.
    """

    def __init__(
        self,
        context: LogContext,
        recorder: ManifestRecorder,
        moves: SegmentTiering,
        archiver: Archiver,
        *,
        random: Random,
    ) -> None:
        self.name = context.state.name
        self._recorder = recorder
        self._moves = moves
        self._archiver = archiver
        self._backoff = Backoff(RETRY, random)

    @property
    def is_owed(self) -> bool:
        """Whether segments wait to be prepared for archiving, or objects to be deleted."""
        return self._archiver.is_owed or bool(self._owed_deletes())

    def step(self) -> int | None:
        """Prepares the requested segments for archiving, and deletes the queued objects.

        Returns the nanoseconds until failed work must be retried, or None if no work failed or it
        was cancelled. Only the coordinator's upkeep task may call this.
        """
        failures: list[LakebedError] = []
        for job in (self._archiver.step, self.delete):
            try:
                job()
            except Cancelled:
                return None
            except LakebedError as error:
                failures.append(error)
        if not failures:
            self._backoff.reset()
            return None
        for failure in failures:
            event(_log, "tier_upkeep_failed", level=logging.WARNING, log=self.name, error=failure)
        return self._backoff.next_ns()

    def delete(self) -> None:
        """Deletes the objects that are queued for deletion in the manifest log."""
        moves = self._moves
        for key, segment_id in self._owed_deletes():
            # The claim raises `Busy` while the object is still being uploaded.
            with moves.claim(moves.owner(key), is_worker=True):
                moves.delete(key, segment_id=segment_id)

    def _owed_deletes(self) -> list[tuple[str, int]]:
        journal = self._recorder.journal
        if journal is None:
            return []
        index = journal.index()
        owed = [(key, MANIFEST_ITSELF) for key in index.pending_deletes]
        return owed + [
            (state.key, state.segment_id)
            for state in index.segments()
            if state.pending & Pending.DELETE
        ]
