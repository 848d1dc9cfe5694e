"""What is measured: rows and their contestants."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass

Run = Callable[[], float]
"""Does some work and returns how much, in the row's unit."""

Setup = Callable[[], Run | AbstractContextManager[Run]]


class Unavailable(Exception):
    """A contestant cannot run here; the message says what is missing."""


@dataclass(frozen=True)
class Contestant:
    name: str
    setup: Setup


@dataclass(frozen=True, kw_only=True)
class Row:
    """One question. `unit` is what a run counts, in the plural: bytes, records, calls."""

    name: str
    unit: str
    contestants: Sequence[Contestant]
    baseline: str

    def __post_init__(self) -> None:
        names = [contestant.name for contestant in self.contestants]
        if len(set(names)) < len(names):
            raise ValueError(f"{self.name}: two contestants have one name")
        if self.baseline not in names:
            raise ValueError(f"{self.name}: the baseline {self.baseline!r} is no contestant")
