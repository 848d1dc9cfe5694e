"""Runs the contestants of a row in turns and takes the medians of their rates."""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field

from bench.row import Resting, Row, Run, Unavailable

Clock = Callable[[], float]


@dataclass(frozen=True, kw_only=True)
class Effort:
    """How long to measure."""

    round_count: int = 7
    turn_s: float = 0.06


QUICK = Effort(round_count=3, turn_s=0.01)


@dataclass(frozen=True, kw_only=True)
class Score:
    """A contestant's rates, one a round, and its ratio to the baseline's median."""

    contestant: str
    rates: list[float] = field(default_factory=list)
    ratio: float | None = None
    missing: str = ""

    @property
    def median(self) -> float:
        return statistics.median(self.rates)

    @property
    def spread(self) -> float:
        """From the slowest to the fastest round, as a part of the median."""
        return (max(self.rates) - min(self.rates)) / self.median


@dataclass(frozen=True, kw_only=True)
class Result:
    row: Row
    scores: list[Score]


def measure(row: Row, effort: Effort, *, clock: Clock = time.perf_counter) -> Result:
    """Set all contestants up, let them take turns, and compare them."""
    with ExitStack() as stack:
        runs: dict[str, Run] = {}
        missing: dict[str, str] = {}
        for contestant in row.contestants:
            try:
                made = contestant.setup()
                if isinstance(made, AbstractContextManager):
                    made = stack.enter_context(made)
            except Unavailable as error:
                missing[contestant.name] = str(error)
                continue
            made()  # warm up
            runs[contestant.name] = made
        rates = _take_turns(row, runs, effort, clock)
    base = statistics.median(rates[row.baseline]) if row.baseline in rates else None
    return Result(
        row=row,
        scores=[
            Score(
                contestant=contestant.name,
                rates=rates.get(contestant.name, []),
                ratio=_ratio(rates.get(contestant.name), base),
                missing=missing.get(contestant.name, ""),
            )
            for contestant in row.contestants
        ],
    )


def _take_turns(
    row: Row, runs: dict[str, Run], effort: Effort, clock: Clock
) -> dict[str, list[float]]:
    rates: dict[str, list[float]] = {name: [] for name in runs}
    was_collecting = gc.isenabled()
    gc.disable()  # a collection would be charged to whoever has the turn
    try:
        for _ in range(effort.round_count):
            for name, run in runs.items():
                turn_s = effort.turn_s
                if row.burst_rest_s is not None:
                    turn_s = 0
                    _rest(runs, row.burst_rest_s)
                rates[name].append(_turn(run, turn_s, clock))
            gc.collect()
    finally:
        if was_collecting:
            gc.enable()
    return rates


def _rest(runs: dict[str, Run], rest_s: float) -> None:
    """For all: whoever has the next turn meets a machine that does nothing else."""
    time.sleep(rest_s)
    for run in runs.values():
        if isinstance(run, Resting):
            run.rest()


def _turn(run: Run, turn_s: float, clock: Clock) -> float:
    work, start = 0.0, clock()
    while True:
        work += run()
        elapsed = clock() - start
        if elapsed >= turn_s:
            return work / elapsed


def _ratio(rates: list[float] | None, base: float | None) -> float | None:
    return statistics.median(rates) / base if rates and base else None
