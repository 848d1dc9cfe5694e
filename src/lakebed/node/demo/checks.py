"""Pairs of counts that must agree: expected and found."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple


class Check(NamedTuple):
    """Two counts of the same thing, come by in different ways."""

    what: str
    expected: int
    found: int

    @property
    def agrees(self) -> bool:
        return self.expected == self.found


class Tally(NamedTuple):
    """What became of events that were acknowledged, by their ids."""

    present: int  # of them
    repeated: int  # copies beyond the first
    strange: int  # ids that were never acknowledged


def tally(ids: Iterable[int], *, acknowledged_count: int) -> Tally:
    """`ids` are those found; the acknowledged ones are 0, 1, 2 and so on."""
    seen = bytearray(acknowledged_count)
    repeated = strange = 0
    for number in ids:
        if not 0 <= number < acknowledged_count:
            strange += 1
        elif seen[number]:
            repeated += 1
        else:
            seen[number] = 1
    return Tally(sum(seen), repeated, strange)


def disagreeing(checks: Iterable[Check]) -> list[Check]:
    return [check for check in checks if not check.agrees]
