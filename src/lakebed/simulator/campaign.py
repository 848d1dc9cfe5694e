"""Runs seeds, in one or several processes, until a seed breaks a promise, all seeds were run, or
the time is over.
"""

from __future__ import annotations

import itertools
import multiprocessing
from collections import deque
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field

from lakebed.base.clock import NS_PER_S, Clock
from lakebed.simulator.drawing import draw_plan
from lakebed.simulator.report import Coverage
from lakebed.simulator.run import RunResult, run_plan


@dataclass
class Campaign:
    """The results of all seeds that were run."""

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
    job_count: int = 1,
    on_seed: Callable[[int, Campaign], None] = lambda _seed, _campaign: None,
) -> Campaign:
    """Runs consecutive seeds from `first_seed` on, and stops at the first broken promise.

    Results are counted in the order of the seeds, so `failed` is the result of the lowest seed that
    broke a promise, whatever `job_count`, the number of processes, is. `on_seed` is called after
    each seed that broke no promise. A `seed_count` or `seconds_max` of None means no limit; the
    time is checked after each seed.
    """
    campaign = Campaign()
    started_ns = clock.monotonic_ns()
    seeds = itertools.islice(itertools.count(first_seed), seed_count)
    with closing(_results(seeds, step_count, job_count)) as results:
        for seed, (coverage, is_broken) in results:
            campaign.seed_count += 1
            campaign.coverage.add(coverage)
            campaign.duration_ns = clock.monotonic_ns() - started_ns
            if is_broken:
                campaign.failed = run_plan(draw_plan(seed, step_count))
                break
            on_seed(seed, campaign)
            if seconds_max is not None and campaign.duration_ns >= seconds_max * NS_PER_S:
                break
    return campaign


def _results(
    seeds: Iterator[int], step_count: int, job_count: int
) -> Generator[tuple[int, tuple[Coverage, bool]]]:
    """Yields each seed with its coverage and whether it broke a promise, in order of the seeds."""
    if job_count == 1:
        for seed in seeds:
            yield seed, _run_seed(seed, step_count)
        return
    # A forked process would inherit the threads' locks of this one.
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(job_count, mp_context=context) as pool:
        started: deque[tuple[int, Future[tuple[Coverage, bool]]]] = deque()
        try:
            for seed in seeds:
                started.append((seed, pool.submit(_run_seed, seed, step_count)))
                if len(started) > 2 * job_count:
                    first, result = started.popleft()
                    yield first, result.result()
            for last, result in started:
                yield last, result.result()
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


def _run_seed(seed: int, step_count: int) -> tuple[Coverage, bool]:
    result = run_plan(draw_plan(seed, step_count))
    return result.coverage, result.violation is not None
