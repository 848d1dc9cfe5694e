"""The API that shows in which tiers the segments of a log are, and that moves them.

    log.tiers.upload()            uploads all sealed segments that Tier 2 does not have
    log.tiers.evict(warm=True)    removes local copies of segments that Tier 2 has
    log.tiers.hydrate([3])        restores segment 3 to Tier 0

Segments are moved here only on request; automatic moves are decided by `tier_scheduler`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from lakebed.aof.context import LogContext
from lakebed.aof.manifest.journal import Journal
from lakebed.aof.manifest.state import Condition, Failures, Pending, Residency, SegmentState
from lakebed.aof.manifest_recorder import ManifestRecorder
from lakebed.aof.tiers.chunk_archive import ChunkArchive
from lakebed.aof.tiers.cold_segments import ColdSegments
from lakebed.aof.tiers.names import manifest_prefix, segments_prefix
from lakebed.aof.tiers.reconciliation import doubtful
from lakebed.aof.tiers.segment_tiering import RepairOutcome, SegmentTiering
from lakebed.aof.tiers.warm_file import Compression
from lakebed.base.errors import Busy, Corrupt, DiskError, LakebedError, NotFound


@dataclass(frozen=True, kw_only=True, slots=True)
class Residence:
    """The tiers that a segment is in, and the state of work on it.

    `pending` and `failures` have the names of flags of `manifest.state`, such as "upload".
    """

    segment_id: int
    tiers: tuple[int, ...]  # the tiers that have it, hottest first
    is_sealed: bool
    durable_bytes: int
    compressed_bytes: int
    key: str
    pending: tuple[str, ...]
    failures: tuple[str, ...]
    needs_repair: bool

    @property
    def is_in_log(self) -> bool:
        """Whether the segment is sealed and its object is not being deleted.

        False for a segment that was only in Tier 2 when retention removed it from the log:
        `LogTiers.residency` lists it until its object is deleted.
        """
        return self.is_sealed and "delete" not in self.pending


class Repaired(NamedTuple):
    """The outcome of a repair for a segment whose object was missing or not its own."""

    segment_id: int
    key: str
    outcome: RepairOutcome


class LogTiers:
    """Moves the segments of one log between tiers, and shows where they are. Thread-safe.

    Moving a segment raises `NotFound` if the log has no such sealed segment, the error of `refusal`
    if it cannot be moved, `Busy` if another thread is moving it, `BadConfig` while the manifest log
    is off, and `Closed` after the log was closed. Without ids, segments that cannot be moved stay
    in Tier 0 and are left out.
    """

    def __init__(
        self,
        context: LogContext,
        recorder: ManifestRecorder,
        cold: ColdSegments,
        *,
        stream_id: int,
        prefix: str,
        compression: Compression,
        is_pinned: Callable[[int], bool],
        should_stop: Callable[[], bool] = lambda: False,
    ) -> None:
        self._state = context.state
        self._recorder = recorder
        self._is_pinned = is_pinned
        self._stream_id = stream_id
        self._prefix = prefix
        self._chunks: ChunkArchive | None = None
        self.cold = cold
        cold.look_up = self._look_up
        self.moves = SegmentTiering(
            context,
            recorder,
            cold,
            stream_id=stream_id,
            prefix=prefix,
            compression=compression,
            should_stop=should_stop,
        )

    def upload(self, segment_ids: Iterable[int] | None = None) -> list[int]:
        """Uploads the given segments, by default all sealed segments, unless Tier 2 has them.

        Compresses them first if necessary. Returns the ids of the uploaded segments, after Tier 2
        has confirmed them.
        """
        done = []
        for segment_id in self._chosen(segment_ids):
            with self.moves.claim(segment_id):
                if not self._known_state(segment_id).residency & Residency.TIER2:
                    self.moves.upload(segment_id)
                    done.append(segment_id)
        return done

    def evict(self, segment_ids: Iterable[int] | None = None, *, warm: bool = False) -> list[int]:
        """Removes the given segments from Tier 0, by default all that are intact in Tier 2.

        With `warm`, also removes them from Tier 1. Returns the ids of the removed segments. By
        default, pinned segments are left out. Raises `Busy` if a given segment is pinned, and
        `InputError` if Tier 2 does not have a given segment, or if its object needs repair or is
        queued for deletion.
        """
        done = []
        for segment_id in self._chosen(segment_ids):
            if self._may_evict(segment_id, is_requested=segment_ids is not None):
                with self.moves.claim(segment_id):
                    freed = self.moves.evict(segment_id)
                    freed += self.moves.evict_warm(segment_id) if warm else 0
                done += [segment_id] if freed else []
        return done

    def hydrate(self, segment_ids: Iterable[int] | None = None) -> list[int]:
        """Restores the given segments, by default all sealed segments, to Tier 0.

        Returns the ids of the segments that were not in Tier 0 before.
        """
        done = []
        for segment_id in self._chosen(segment_ids):
            with self.moves.claim(segment_id):
                if not self._known_state(segment_id).residency & Residency.TIER0:
                    self.moves.hydrate(segment_id)
                    done.append(segment_id)
        return done

    def refusal(self, segment_id: int) -> LakebedError | None:
        """Returns why a sealed segment that is only in Tier 0 cannot be moved; None if it can be.

        The error is `InputError` if the segment has the interchange layout, and `Corrupt` if it is
        not recorded as sealed, because its footer is missing or damaged. Returns None for any other
        segment, and for one that the log does not have.
        """
        journal = self._recorder.journal_to_move()
        with self._state.mutex:
            info = self._state.chain.find(segment_id)
            state = journal.state(segment_id)
        if info is None or info.tier or (state and state.residency & ~Residency.TIER0):
            return None
        # A file that cannot be read is reported by the move itself.
        with contextlib.suppress(NotFound, DiskError):
            refusal = self.moves.refusal_of(info)
            if refusal is not None:
                return refusal
        if state is None or not state.is_sealed:
            problem = "the segment cannot be moved: its footer is missing or damaged"
            return Corrupt(problem, path=info.path)
        return None

    def retry_uploads(self, segment_ids: Iterable[int] | None = None) -> list[int]:
        """Uploads the given segments, by default all whose last upload failed.

        Call it after the cause of the failures was fixed. Returns the ids of the uploaded segments.
        """
        if segment_ids is None:
            failed = [place for place in self.residency() if "upload" in place.failures]
            segment_ids = [place.segment_id for place in failed if 2 not in place.tiers]
        return self.upload(segment_ids)

    def repair(self) -> list[Repaired]:
        """Checks the object of every segment that should be in Tier 2, and repairs what is wrong.

        Uploads an object again if it is missing, or if its size or recorded checksum is wrong; the
        content is not read. Returns the outcome for each object that was not in order. If there is
        no local copy to upload, marks the segment as needing repair; a later repair that finds the
        object again removes the mark.
        """
        places = [place for place in self.residency() if place.is_in_log and place.key]
        outcomes = []
        for place in places:
            with self.moves.claim(place.segment_id):
                outcome = self.moves.repair(place.segment_id)
            if outcome is not RepairOutcome.WHOLE:
                outcomes.append(Repaired(place.segment_id, place.key, outcome))
        return outcomes

    def doubtful(self, states: Iterable[SegmentState]) -> list[SegmentState]:
        """Returns the segments whose object Tier 2 does not list with the recorded size and ETag.

        A listing may be outdated, so the caller must check each object.
        """
        prefix = segments_prefix(self._prefix, self._stream_id)
        listed = {info.key: info for info in self.cold.store.list(prefix)}
        return doubtful(states, listed=listed)

    def chunks(self, journal: Journal) -> ChunkArchive:
        """Returns the archive of the manifest log's chunks in Tier 2."""
        if self._chunks is None:
            self._chunks = ChunkArchive(
                journal.reader(),
                disk=journal.disk,
                store=self.cold.store,
                prefix=manifest_prefix(self._prefix, self._stream_id),
            )
        return self._chunks

    def residency(self) -> list[Residence]:
        """Returns where every segment is, oldest first; empty while the manifest log is off."""
        return [residence(state) for state in self.states()]

    def states(self) -> list[SegmentState]:
        """Returns the states of all segments from the manifest log; empty while that is off."""
        journal = self._recorder.journal
        return [] if journal is None else list(journal.index().segments())

    def _chosen(self, segment_ids: Iterable[int] | None) -> Sequence[int]:
        if segment_ids is not None:
            return list(segment_ids)
        with self._state.mutex:
            sealed = [info.segment_id for info in self._state.chain.sealed]
        return [segment_id for segment_id in sealed if self.refusal(segment_id) is None]

    def _look_up(self, segment_id: int) -> SegmentState | None:
        journal = self._recorder.journal
        return None if journal is None else journal.state(segment_id)

    def _known_state(self, segment_id: int) -> SegmentState:
        refusal = self.refusal(segment_id)
        if refusal is not None:
            raise refusal
        state = self._recorder.journal_to_move().state(segment_id)
        if state is None or not state.is_sealed:
            raise NotFound(f"{self._state.name}: the log has no sealed segment {segment_id}")
        return state

    def _may_evict(self, segment_id: int, *, is_requested: bool) -> bool:
        if is_requested and self._is_pinned(segment_id):
            raise Busy(f"{self._state.name}: segment {segment_id} is pinned and cannot be evicted")
        state = self._known_state(segment_id)
        return is_requested or (state.is_stored and not self._is_pinned(segment_id))


def residence(state: SegmentState) -> Residence:
    """Converts a segment's recorded state to a `Residence`."""
    tiers = [number for number, tier in enumerate(Residency) if state.residency & tier]
    return Residence(
        segment_id=state.segment_id,
        tiers=tuple(tiers),
        is_sealed=state.is_sealed,
        durable_bytes=state.durable_bytes,
        compressed_bytes=state.compressed_bytes,
        key=state.key,
        pending=_names(Pending, state.pending),
        failures=_names(Failures, state.failures),
        needs_repair=bool(state.condition & Condition.NEEDS_REPAIR),
    )


def _names(flags: type[Pending] | type[Failures], value: int) -> tuple[str, ...]:
    return tuple(str(flag.name).lower() for flag in flags if value & flag)
