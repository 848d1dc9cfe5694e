"""What is measured: rows and their contestants."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

Run = Callable[[], float]
"""Does some work and returns how much, in the row's unit."""

Setup = Callable[[], Run | AbstractContextManager[Run]]


@runtime_checkable
class Resting(Protocol):
    """A run that has something to do between turns, without a clock."""

    def __call__(self) -> float: ...

    def rest(self) -> None:
        """Get ready for the next turn: let background work end, make a file anew."""


class Unavailable(Exception):
    """A contestant cannot run here; the message says what is missing."""


@dataclass(frozen=True)
class Contestant:
    name: str
    setup: Setup


@dataclass(frozen=True, kw_only=True)
class Row:
    """One question. `unit` is what a run counts, in the plural: bytes, records, calls.

    In a row of bursts a turn is one run, and all contestants rest that long before each.
    """

    name: str
    unit: str
    contestants: Sequence[Contestant]
    baseline: str
    note: str = ""
    burst_rest_s: float | None = None

    def __post_init__(self) -> None:
        names = [contestant.name for contestant in self.contestants]
        if len(set(names)) < len(names):
            raise ValueError(f"{self.name}: two contestants have one name")
        if self.baseline not in names:
            raise ValueError(f"{self.name}: the baseline {self.baseline!r} is no contestant")
