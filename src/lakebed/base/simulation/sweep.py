"""Runs a scenario with a crash at every I/O step in turn, and checks what survived.

    class Appends:
        def run(self, world): ...      # act, and note what was acknowledged
        def check(self, world): ...    # after the restart: open, read, compare; assert

    sweep(Appends, seeds=range(4))

For each seed the scenario runs once without a crash, which counts its steps, and then once for each
step and each way of crashing there. Long traces are sampled (`cases_max`). A failure is reported as
one case, `seed:step:crash:survivors`; set `LAKEBED_CASE` to it to run that case alone.
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
    """One run. A new one is made for each case, so it may keep what was acknowledged."""

    def run(self, world: World) -> None: ...

    def check(self, world: World) -> None: ...


class Case(NamedTuple):
    """One crash: where it happens, of which kind, and which draw of survivors."""

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
                f"{CASE_VARIABLE} must be seed:step:kill|power:n, not {text!r}"
            ) from None


class CaseFailed(AssertionError):
    """A scenario's check failed; the cause is the check's own error."""


def sweep(
    make: Callable[[], Scenario],
    *,
    seeds: Iterable[int],
    survivors: Iterable[int] = range(4),
    cases_max: int = 4000,
) -> int:
    """Returns how many crashes were tried. Raises `CaseFailed` at the first that fails its
    check.
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
        # The step after the last one: a crash when all is done.
        for step in range(world.disk.steps + 1):
            yield Case(seed, step, Crash.KILL, 0)
            for draw in survivors:
                yield Case(seed, step, Crash.POWER, draw)


def _run(scenario: Scenario, world: World) -> None:
    with contextlib.suppress(SimulatedCrash):
        scenario.run(world)
