"""Runs consecutive seeds until one breaks a promise, the time limit is reached, or all have run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from lakebed.base.clock import NS_PER_S, Clock
from lakebed.simulator.drawing import draw_plan
from lakebed.simulator.report import Coverage
from lakebed.simulator.run import RunResult, run_plan


@dataclass
class Campaign:
    """The combined results of all seeds run so far; `failed` is the run that broke a promise."""

    coverage: Coverage = field(default_factory=Coverage)
    seed_count: int = 0
    duration_ns: int = 0
    failed: RunResult | None = None

    @property
    def steps_per_s(self) -> float:
        return self.coverage.step_count * NS_PER_S / max(1, self.duration_ns)


def run_seeds(
    first_seed: int,
    *,
    step_count: int,
    seed_count: int | None,
    seconds_max: float | None,
    clock: Clock,
    on_seed: Callable[[int, Campaign], None] = lambda _seed, _campaign: None,
) -> Campaign:
    """Runs `first_seed` and the seeds after it, and stops after the first that breaks a promise.

    Also stops after `seed_count` seeds, or after the first seed that ends past `seconds_max`.
    """
    campaign = Campaign()
    started_ns = clock.monotonic_ns()
    for seed in _seeds(first_seed, seed_count):
        result = run_plan(draw_plan(seed, step_count))
        campaign.seed_count += 1
        campaign.coverage.add(result.coverage)
        campaign.duration_ns = clock.monotonic_ns() - started_ns
        if result.violation is not None:
            campaign.failed = result
            break
        on_seed(seed, campaign)
        if seconds_max is not None and campaign.duration_ns >= seconds_max * NS_PER_S:
            break
    return campaign


def _seeds(first: int, count: int | None) -> Iterator[int]:
    seed = first
    while count is None or seed < first + count:
        yield seed
        seed += 1
