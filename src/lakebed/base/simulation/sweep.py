"""Runs a scenario with a crash at every I/O step in turn, and checks what survived.

    class Appends:
        def run(self, world): ...      # act, and record what was acknowledged
        def check(self, world): ...    # after the restart: open, read, compare; assert

    sweep(Appends, seeds=range(4))

For each seed the scenario runs once without a crash, to count its steps. Then, for each step, it
runs once with a killed process at that step, and once with a power cut for each number in
`survivors`, which chooses what survives. If there are more than `cases_max` cases, only a random
sample of them runs. A failure is reported with its case, `seed:step:crash:survivors`; to run only
that case, set the environment variable `LAKEBED_CASE` to it.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterable, Iterator
from random import Random
from typing import NamedTuple, Protocol

from lakebed.base.errors import InputError
from lakebed.base.simulation.disk import Crash
from lakebed.base.simulation.scheduler import SimulatedCrash, killing_all
from lakebed.base.simulation.world import World

CASE_VARIABLE = "LAKEBED_CASE"


class Scenario(Protocol):
    """Code to run and check under crashes. Each case gets a new object, which may keep state."""

    def run(self, world: World) -> None: ...

    def check(self, world: World) -> None: ...


class Case(NamedTuple):
    """A crash to simulate: seed, step, kind of crash, and the choice of what survives."""

    seed: int
    step: int
    crash: Crash
    survivors: int

    def __str__(self) -> str:
        return f"{self.seed}:{self.step}:{self.crash.value}:{self.survivors}"

    @classmethod
    def parse(cls, text: str) -> Case:
        try:
            seed, step, crash, survivors = text.split(":")
            return cls(int(seed), int(step), Crash(crash), int(survivors))
        except ValueError:
            raise InputError(
                f"{CASE_VARIABLE} must be seed:step:crash:survivors (7:31:power:2), not {text!r}"
            ) from None


class CaseFailed(AssertionError):
    """A case of a sweep failed; `__cause__` is the error that the scenario raised."""


def sweep(
    make: Callable[[], Scenario],
    *,
    seeds: Iterable[int],
    survivors: Iterable[int] = range(4),
    cases_max: int = 4000,
) -> int:
    """Runs the cases: all, a sample of `cases_max`, or only the case in `LAKEBED_CASE`. Returns how
    many it ran. Raises `CaseFailed` at the first that fails.
    """
    case_text = os.environ.get(CASE_VARIABLE)
    if case_text:
        run_case(make, Case.parse(case_text))
        return 1
    with killing_all():
        cases = list(_cases(make, seeds, tuple(survivors)))
    if len(cases) > cases_max:
        cases = Random(f"sample of {len(cases)}").sample(cases, cases_max)
    for case in cases:
        with killing_all():
            run_case(make, case)
    return len(cases)


def run_case(make: Callable[[], Scenario], case: Case) -> None:
    world = World(case.seed)
    world.disk.faults.crash_at_step = case.step
    scenario = make()
    try:
        _run(scenario, world)
        world.restart(case.crash, survivors=case.survivors)
        scenario.check(world)
    except Exception as error:
        name = type(scenario).__name__
        raise CaseFailed(f"{name}: {error!r}; replay with {CASE_VARIABLE}={case}") from error


def _cases(
    make: Callable[[], Scenario], seeds: Iterable[int], survivors: tuple[int, ...]
) -> Iterator[Case]:
    for seed in seeds:
        world = World(seed)
        _run(make(), world)
        # The last case crashes after the last step, when the scenario has ended.
        for step in range(world.disk.steps + 1):
            yield Case(seed, step, Crash.KILL, 0)
            for draw in survivors:
                yield Case(seed, step, Crash.POWER, draw)


def _run(scenario: Scenario, world: World) -> None:
    with contextlib.suppress(SimulatedCrash):
        scenario.run(world)
