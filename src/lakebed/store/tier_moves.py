"""Moves segments between tiers on request, and reports the result for each segment.

If a segment cannot be moved because its copies are damaged or missing, or because it is busy, the
segment is reported as failed and the others are still moved. An error that would affect all
segments ends the work: for example, Tier 2 does not answer or refuses access, or the disk is full.

Before a segment is evicted, its object in Tier 2 is looked up, because the object may have been
deleted there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple, TypeVar

from lakebed.aof.log import Aof
from lakebed.aof.tiers.errors import Missing, Tier2Error
from lakebed.aof.tiers.log_tiers import Repaired, Residence, residence
from lakebed.aof.tiers.segment_tiering import RepairOutcome
from lakebed.base.clock import NS_PER_MS, NS_PER_S
from lakebed.base.errors import BadConfig, Busy, DataError, InputError, LakebedError, NotFound
from lakebed.base.progress import Progress
from lakebed.store.store import Store
from lakebed.store.tier_choice import (
    Choice,
    Skipped,
    WhyNot,
    choose,
    missing_object,
    why_not_evicted,
    why_not_hydrated,
    why_not_uploaded,
)

_BUSY_NS_MAX = 60 * NS_PER_S
_BUSY_AGAIN_NS = 20 * NS_PER_MS

Result = TypeVar("Result")


class Moved(NamedTuple):
    """A segment that was moved, and its tiers before and after."""

    before: Residence
    after: Residence
    bytes: int  # how many were uploaded, freed on the local disk, or brought back to Tier 0


class Failed(NamedTuple):
    """A segment that could not be moved, and why."""

    segment_id: int
    error: LakebedError


@dataclass
class Outcome:
    """The results of a request for all its segments that were processed."""

    skipped: list[Skipped] = field(default_factory=list)
    moved: list[Moved] = field(default_factory=list)
    repaired: list[Repaired] = field(default_factory=list)  # only by `repair`
    failed: list[Failed] = field(default_factory=list)
    stopped_by: LakebedError | None = None  # the error that ended the work early

    @property
    def bytes(self) -> int:
        return sum(move.bytes for move in self.moved)


class TierMoves:
    """Moves segments of one log between tiers.

    The constructor opens the log for writing. It raises `BadConfig` if the log's manifest log is
    switched off.
    """

    def __init__(self, store: Store, name: str, *, progress: Progress) -> None:
        self._store = store
        self._name = name
        self._log: Aof = store.log(name)
        self._progress = progress
        if self._log.manifest is None:
            raise BadConfig(
                f"{name}: cannot move segments, because the manifest log is switched off; "
                "to switch it on, set manifest_log_enabled of [aof_manifest]"
            )

    def upload(self, segment_ids: Sequence[int] | None) -> Outcome:
        """Compresses segments into warm files and uploads them to Tier 2.

        `segment_ids` are the segments to upload; None means all that are sealed.
        """
        choice = self._choose(segment_ids, why_not_uploaded)
        return self._move(choice, self._log.tiers.upload, _uploaded_bytes)

    def retry_upload(self, segment_ids: Sequence[int] | None) -> Outcome:
        """Uploads the given segments; None means all whose last upload failed."""
        if segment_ids is None:
            failed = [place for place in self._log.tiers.residency() if "upload" in place.failures]
            segment_ids = [place.segment_id for place in failed if 2 not in place.tiers]
        return self.upload(segment_ids)

    def evict(self, segment_ids: Sequence[int] | None, *, warm: bool) -> Outcome:
        """Removes segments from Tier 0, and with `warm` also from Tier 1.

        `segment_ids` are the segments to remove; None means all that are intact in Tier 2 and not
        pinned.
        """
        why_not = why_not_evicted(self._name, self._store.pins.active(), warm=warm)
        choice = self._choose(segment_ids, why_not)
        return self._move(choice, partial(self._evict, warm=warm), _freed_bytes)

    def hydrate(self, segment_ids: Sequence[int] | None) -> Outcome:
        """Brings segments back into Tier 0.

        `segment_ids` are the segments to bring back; None means all that are sealed.
        """
        choice = self._choose(segment_ids, why_not_hydrated)
        return self._move(choice, self._log.tiers.hydrate, _restored_bytes)

    def repair(self) -> Outcome:
        """Checks the objects in Tier 2, and uploads those again that are missing or wrong.

        The content of the objects is not read: an object is wrong if its size or its recorded
        checksum is. It can be uploaded again only if a local copy of its segment exists.
        """
        outcome = Outcome()
        uploaded = [
            place for place in self._log.tiers.residency() if place.is_in_log and 2 in place.tiers
        ]
        for place in self._each(uploaded, outcome):
            with _noting(outcome, place.segment_id):
                result = self._with_retries(partial(self._repair, place.segment_id))
                if result is not RepairOutcome.WHOLE:
                    outcome.repaired.append(Repaired(place.segment_id, place.key, result))
        return outcome

    def _choose(self, segment_ids: Sequence[int] | None, why_not: WhyNot) -> Choice:
        """Chooses the segments to move; see `choose`.

        Segments that can never be moved, such as those with the interchange layout, are left out;
        if one is in `segment_ids`, raises the error that explains why.
        """
        tiers = self._log.tiers
        for segment_id in segment_ids or ():
            refusal = tiers.refusal(segment_id)
            if refusal is not None:
                raise refusal
        places = tiers.residency()
        if segment_ids is None:
            places = [place for place in places if tiers.refusal(place.segment_id) is None]
        return choose(self._name, places, segment_ids, why_not=why_not)

    def _move(
        self,
        choice: Choice,
        move: Callable[[Sequence[int]], object],
        size: Callable[[Residence, Residence], int],
    ) -> Outcome:
        outcome = Outcome(choice.skipped)
        for before in self._each(choice.chosen, outcome):
            with _noting(outcome, before.segment_id):
                self._with_retries(partial(move, [before.segment_id]))
                after = self._place(before.segment_id)
                outcome.moved.append(Moved(before, after, size(before, after)))
        return outcome

    def _each(self, places: Sequence[Residence], outcome: Outcome) -> Iterator[Residence]:
        for count, place in enumerate(places, start=1):
            if outcome.stopped_by is not None:
                return
            yield place
            self._progress(count, len(places))

    def _with_retries(self, move: Callable[[], Result]) -> Result:
        """Runs a move; if it raises `Busy`, retries it for up to a minute, then raises the `Busy`.

        Other work may be moving the segment, or a pin protects it.
        """
        clock = self._store.runner.clock
        deadline_ns = clock.monotonic_ns() + _BUSY_NS_MAX
        while True:
            try:
                return move()
            except Busy:
                if clock.monotonic_ns() > deadline_ns:
                    raise
            self._store.runner.sleep_ns(_BUSY_AGAIN_NS)

    def _evict(self, segment_ids: Sequence[int], *, warm: bool) -> None:
        for segment_id in segment_ids:
            self._check_object(segment_id)
        self._log.tiers.evict(segment_ids, warm=warm)

    def _check_object(self, segment_id: int) -> None:
        place = self._place(segment_id)
        try:
            size = self._log.tiers.cold.store.head(place.key).size
        except Missing:
            size = -1
        if size != place.compressed_bytes:
            raise missing_object(self._name, segment_id)

    def _repair(self, segment_id: int) -> RepairOutcome:
        moves = self._log.tiers.moves
        with moves.claim(segment_id):
            return moves.repair(segment_id)

    def _place(self, segment_id: int) -> Residence:
        assert self._log.manifest is not None, "checked by the constructor"
        state = self._log.manifest.state(segment_id)
        if state is None:
            raise NotFound(f"{self._name}: segment {segment_id} was removed from the log")
        return residence(state)


@contextmanager
def _noting(outcome: Outcome, segment_id: int) -> Iterator[None]:
    """Catches an error and records it in `outcome`.

    The error is recorded as a failure of this segment, or as the end of the work if it would affect
    all segments.
    """
    try:
        yield
    except LakebedError as error:
        is_general = isinstance(error, Tier2Error) and not isinstance(error, Missing)
        if isinstance(error, DataError | InputError | Busy) and not is_general:
            outcome.failed.append(Failed(segment_id, error))
        else:
            outcome.stopped_by = error


def _uploaded_bytes(_: Residence, after: Residence) -> int:
    return after.compressed_bytes


def _freed_bytes(before: Residence, after: Residence) -> int:
    left = set(before.tiers) - set(after.tiers)
    return (0 in left) * before.durable_bytes + (1 in left) * before.compressed_bytes


def _restored_bytes(_: Residence, after: Residence) -> int:
    return after.durable_bytes
