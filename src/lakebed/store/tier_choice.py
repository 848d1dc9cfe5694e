"""Which segments a move is for, decided from what is known of them, without I/O.

What is asked for by number and cannot be done is an error, before anything is moved. Of all sealed
segments, those that need no move or may not be moved are passed over, and why is told.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from lakebed.aof.tiers.log_tiers import Residence
from lakebed.base.errors import Busy, InputError, LakebedError, NotFound
from lakebed.store.pins import Pin


class Refusal(NamedTuple):
    """Why a segment is not moved. Without an error it is where it should be already."""

    why: str
    error: LakebedError | None = None


class Skipped(NamedTuple):
    """A segment that is passed over."""

    segment_id: int
    why: str


class Choice(NamedTuple):
    """The segments to move, oldest first or as they were asked for, and the others."""

    chosen: list[Residence]
    skipped: list[Skipped]


WhyNot = Callable[[Residence], Refusal | None]


def choose(
    log: str, places: Sequence[Residence], segment_ids: Sequence[int] | None, *, why_not: WhyNot
) -> Choice:
    """From those asked for, or from all that are sealed."""
    if segment_ids is None:
        wanted = [place for place in places if place.is_in_log]
    else:
        wanted = [_find(log, places, number) for number in dict.fromkeys(segment_ids)]
    choice = Choice([], [])
    for place in wanted:
        refusal = why_not(place)
        if refusal is None:
            choice.chosen.append(place)
        elif refusal.error is not None and segment_ids is not None:
            raise refusal.error
        else:
            choice.skipped.append(Skipped(place.segment_id, refusal.why))
    return choice


def why_not_uploaded(place: Residence) -> Refusal | None:
    return Refusal("in Tier 2 already") if 2 in place.tiers else None


def why_not_hydrated(place: Residence) -> Refusal | None:
    return Refusal("in Tier 0 already") if 0 in place.tiers else None


def why_not_evicted(log: str, pins: Sequence[Pin], *, warm: bool) -> WhyNot:
    """`pins` are those that count now."""

    def why_not(place: Residence) -> Refusal | None:
        number = place.segment_id
        if 0 not in place.tiers and not (warm and 1 in place.tiers):
            return Refusal("evicted already")
        if 2 not in place.tiers or "delete" in place.pending:
            told = f"{log}: segment {number} is not in Tier 2 yet"
            return Refusal(
                "not in Tier 2 yet", InputError(f"{told}: lakebed aof upload {log} {number}")
            )
        if place.needs_repair:
            return Refusal("in need of repair", missing_object(log, number))
        for pin in pins:
            if pin.covers(log, number):
                told = f"{log}: segment {number} is pinned by {pin.owner}"
                return Refusal("pinned", Busy(f"{told}, pin {pin.pin_id}"))
        return None

    return why_not


def missing_object(log: str, segment_id: int) -> LakebedError:
    """Somebody deleted it, or put another one in its place."""
    return InputError(
        f"{log}: the object of segment {segment_id} is missing in Tier 2: "
        f"lakebed aof repair {log} --tier2"
    )


def _find(log: str, places: Sequence[Residence], segment_id: int) -> Residence:
    found = next((place for place in places if place.segment_id == segment_id), None)
    if found is None:
        raise NotFound(f"{log}: there is no segment {segment_id}")
    if not found.is_sealed:
        raise InputError(
            f"{log}: segment {segment_id} is not sealed yet; lakebed aof seal {log} does it"
        )
    if not found.is_in_log:
        raise NotFound(f"{log}: segment {segment_id} was removed; its object is being deleted")
    return found
