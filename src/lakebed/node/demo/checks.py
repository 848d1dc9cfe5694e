"""The checks of the demo: pairs of an expected count and an actual count, which must be equal."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple


class Check(NamedTuple):
    """An expected and an actual count, obtained in different ways."""

    what: str
    expected: int
    found: int

    @property
    def agrees(self) -> bool:
        return self.expected == self.found


class Tally(NamedTuple):
    """The result of comparing the events that were found with the acknowledged events, by id."""

    present: int  # acknowledged events that were found
    repeated: int  # copies beyond the first
    strange: int  # ids that were never acknowledged


def tally(ids: Iterable[int], *, acknowledged_count: int) -> Tally:
    """Compares the ids that were found with the acknowledged ids, which are 0, 1, 2 and so on."""
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
