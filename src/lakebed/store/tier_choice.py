"""Chooses the segments for a move between tiers, without I/O.

If the caller names segments and one of them cannot be moved, an error is raised, and nothing is
moved. If the caller does not name any, all sealed segments are considered; those that cannot be
moved are skipped, with the reason. A segment that is already in the right tier is skipped in both
cases.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from lakebed.aof.tiers.log_tiers import Residence
from lakebed.base.errors import Busy, InputError, LakebedError, NotFound
from lakebed.store.pins import Pin


class Refusal(NamedTuple):
    """Why a segment is not moved, as a short text and as an error.

    `error` is None if nothing is wrong, because the segment is already in the right tier.
    """

    why: str
    error: LakebedError | None = None


class Skipped(NamedTuple):
    """A segment that is not moved, and why."""

    segment_id: int
    why: str


class Choice(NamedTuple):
    """The segments to move, and those that are skipped."""

    chosen: list[Residence]
    skipped: list[Skipped]


WhyNot = Callable[[Residence], Refusal | None]


def choose(
    log: str, places: Sequence[Residence], segment_ids: Sequence[int] | None, *, why_not: WhyNot
) -> Choice:
    """Chooses the segments to move: those in `segment_ids`, or all sealed ones if that is None.

    `places` are the segments of the log. `why_not` returns the reason not to move a segment, or
    None to move it. If a segment in `segment_ids` cannot be moved, raises the error of that reason.
    Raises `NotFound` or `InputError` if such a segment does not exist or is not sealed.
    """
    if segment_ids is None:
        candidates = [place for place in places if place.is_in_log]
    else:
        candidates = [_find(log, places, segment_id) for segment_id in dict.fromkeys(segment_ids)]
    choice = Choice([], [])
    for place in candidates:
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
    """Returns a function that returns why a segment is not evicted, or None if it can be.

    To evict a segment is to remove it from Tier 0, and with `warm` from Tier 1 too. `pins` are the
    pins in effect now.
    """

    def why_not(place: Residence) -> Refusal | None:
        number = place.segment_id
        if 0 not in place.tiers and not (warm and 1 in place.tiers):
            return Refusal("evicted already")
        if 2 not in place.tiers or "delete" in place.pending:
            text = f"{log}: segment {number} is not in Tier 2 yet"
            return Refusal(
                "not in Tier 2 yet",
                InputError(f"{text}; upload it first: lakebed aof upload {log} {number}"),
            )
        if place.needs_repair:
            return Refusal("in need of repair", missing_object(log, number))
        for pin in pins:
            if pin.covers(log, number):
                text = f"{log}: segment {number} is pinned by {pin.owner}"
                return Refusal(
                    "pinned",
                    Busy(f"{text}, pin {pin.pin_id}; evict it after the pin is released"),
                )
        return None

    return why_not


def missing_object(log: str, segment_id: int) -> LakebedError:
    """Returns the error for an object that was deleted or replaced in Tier 2."""
    return InputError(
        f"{log}: the object of segment {segment_id} is missing in Tier 2, or was replaced; "
        f"upload it again: lakebed aof repair {log} --tier2"
    )


def _find(log: str, places: Sequence[Residence], segment_id: int) -> Residence:
    place = next((place for place in places if place.segment_id == segment_id), None)
    if place is None:
        raise NotFound(f"{log}: there is no segment {segment_id}")
    if not place.is_sealed:
        raise InputError(
            f"{log}: segment {segment_id} is not sealed yet; seal it first: lakebed aof seal {log}"
        )
    if not place.is_in_log:
        raise NotFound(
            f"{log}: segment {segment_id} was removed from the log; its object is being deleted"
        )
    return place
