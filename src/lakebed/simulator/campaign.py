"""Runs seeds one after another until one breaks a promise, the time is over, or all are done."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from lakebed.base.clock import NS_PER_S, Clock
from lakebed.simulator.drawing import draw_plan
from lakebed.simulator.report import Coverage
from lakebed.simulator.run import RunResult, run_plan


@dataclass
class Campaign:
    """What came of the seeds that were run."""

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
    """Run from that seed on; ends at the first promise that is broken."""
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
