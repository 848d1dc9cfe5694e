"""`lakebed simulate`: runs a whole store on a simulated machine with faults, from a seed."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lakebed.base.errors import InputError
from lakebed.cli.invocation import invocation
from lakebed.cli.output import Output
from lakebed.cli.report import Text, Value, counted

if TYPE_CHECKING:
    from lakebed.simulator.campaign import Campaign
    from lakebed.simulator.plan import Plan
    from lakebed.simulator.run import RunResult

app = typer.Typer(add_completion=False, rich_markup_mode=None)

BROKEN_EXIT_CODE = 1
_SHRINK_S = 60.0
_PLAN_BYTES_MAX = 64 << 20
_TRACE_LINES = 25


@app.command()
def simulate(
    context: typer.Context,
    seed: Annotated[
        int,
        typer.Option(
            metavar="N", min=0, help="The first seed. The seed and --steps determine the whole run."
        ),
    ] = 1,
    steps: Annotated[
        int,
        typer.Option(
            metavar="M",
            min=1,
            help="The number of steps in each run. A number below 5 counts as 5.",
        ),
    ] = 1000,
    minutes: Annotated[
        float | None,
        typer.Option(
            metavar="T",
            min=0.0,
            help="Run consecutive seeds until this many minutes have passed, or until a guarantee "
            "is violated.",
        ),
    ] = None,
    seeds: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=1,
            help="Run this many consecutive seeds, or fewer if a guarantee is violated. Default: "
            "1; with --minutes, no limit.",
        ),
    ] = None,
    jobs: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=1,
            help="The number of processes that run seeds. Default: one per core. A single seed "
            "runs in one process.",
        ),
    ] = None,
    replay: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Run the steps that an earlier failing run saved in this file."
        ),
    ] = None,
    save: Annotated[
        Path,
        typer.Option(
            metavar="DIR", help="The folder in which the reduced steps of a failing run are saved."
        ),
    ] = Path(),
    shrink: Annotated[
        bool,
        typer.Option(
            "--shrink/--no-shrink",
            metavar="",
            help="Whether to reduce a failing run to the steps that matter, for up to about a "
            "minute, and save them. Default: yes.",
        ),
    ] = True,
    trace: Annotated[
        bool,
        typer.Option(
            "--trace",
            metavar="",
            help="Print one line per step, crash and check of a failing, replayed or single run. "
            "Default: only the last lines of a failing run.",
        ),
    ] = False,
) -> None:
    """Run a store on a simulated machine with injected faults, and check its guarantees.

    The exit code is 1 if a guarantee was violated. In that case the failing run is reduced to the
    steps that matter, and these are saved (not with --no-shrink or --replay). The last line printed
    is then the command that repeats the run.

    \b
    Examples:
      Run one seed:
        lakebed simulate --seed 7 --steps 1000
      Run seeds for ten minutes:
        lakebed simulate --minutes 10
      Replay a saved failure and print every step:
        lakebed simulate --replay simulation-7.json --trace
    """
    _require_greenlet()
    from lakebed.base.clock import SystemClock
    from lakebed.simulator.campaign import Campaign, run_seeds
    from lakebed.simulator.run import run_plan

    output = invocation(context).output
    if replay is not None:
        result = run_plan(_plan_of(replay))
        campaign = Campaign(result.coverage, 1, failed=result if result.violation else None)
        _print_trace(output, result, whole=trace)
        _end(output, campaign, f"lakebed simulate --replay {replay}")
        return
    if seeds is None and minutes is None:
        seeds = 1
    campaign = run_seeds(
        seed,
        step_count=steps,
        seed_count=seeds,
        seconds_max=None if minutes is None else minutes * 60,
        clock=SystemClock(),
        job_count=1 if seeds == 1 else jobs or len(os.sched_getaffinity(0)),
    )
    if campaign.failed is None:
        if trace and seeds == 1:
            _print_single(output, seed, steps)
        _end(output, campaign, "")
        return
    failed = campaign.failed
    _print_trace(output, failed, whole=trace)
    if shrink:
        _shrink(output, failed, save)
    _end(output, campaign, f"lakebed simulate --seed {failed.plan.seed} --steps {steps}")


def _require_greenlet() -> None:
    try:
        import greenlet  # noqa: F401 - the scheduler needs it
    except ImportError:
        raise InputError(
            "the simulator needs greenlet: install lakebed with the extra `simulation`, "
            "pip install 'lakebed[simulation]'"
        ) from None


def _plan_of(path: Path) -> Plan:
    from lakebed.base.files.durable import read_file
    from lakebed.kernels.disk import real_disk
    from lakebed.simulator.plan import Plan

    text = read_file(real_disk(), path, size_max=_PLAN_BYTES_MAX).decode(errors="replace")
    return Plan.decode(text, path=str(path))


def _print_single(output: Output, seed: int, steps: int) -> None:
    from lakebed.simulator.drawing import draw_plan
    from lakebed.simulator.run import run_plan

    _print_trace(output, run_plan(draw_plan(seed, steps)), whole=True)


def _print_trace(output: Output, result: RunResult, *, whole: bool) -> None:
    lines = result.trace.lines
    for line in lines if whole else lines[-_TRACE_LINES:] if result.violation else []:
        output.line(line)
    for line in result.details.splitlines():
        output.line(line)


def _shrink(output: Output, failed: RunResult, folder: Path) -> None:
    from lakebed.base.clock import SystemClock
    from lakebed.base.files.durable import make_folders, replace_atomically
    from lakebed.kernels.disk import real_disk
    from lakebed.simulator.shrinker import Shrinker

    shrinker = Shrinker(failed, clock=SystemClock(), seconds_max=_SHRINK_S)
    smallest = shrinker.shrink()
    path = folder / f"simulation-{failed.plan.seed}.json"
    disk = real_disk()
    make_folders(disk, folder.absolute())
    replace_atomically(disk, path, smallest.plan.encode().encode())
    count = len(smallest.plan.steps)
    runs = counted(shrinker.run_count, "run")
    output.line(f"reduced to {counted(count, 'step')} after {runs}:")
    for line in smallest.trace.lines[-_TRACE_LINES:]:
        output.line(line)
    output.line(f"steps saved; replay them with: lakebed simulate --replay {path}")


def _end(output: Output, campaign: Campaign, replay: str) -> None:
    coverage = campaign.coverage
    sums = (
        f"{counted(campaign.seed_count, 'seed')}, {counted(coverage.step_count, 'step')}, "
        f"{coverage.crash_count} {'crash' if coverage.crash_count == 1 else 'crashes'}"
    )
    if campaign.duration_ns:
        sums += f", {campaign.steps_per_s:.0f} steps per second"
    failed = campaign.failed
    violation = None if failed is None or failed.violation is None else failed.violation
    document = {
        "seeds": campaign.seed_count,
        "steps": coverage.step_count,
        "crashes": coverage.crash_count,
        "operations": coverage.document(),
        "broken": None if violation is None else str(violation),
        "replay": replay,
    }
    lines = [*coverage.lines(), sums]
    if violation is None:
        lines.append("no promise was broken")
    else:
        lines += [f"BROKEN {violation}", replay]
    output.show(*(Value(name, value) for name, value in document.items()), Text(*lines))
    if violation is not None:
        raise typer.Exit(BROKEN_EXIT_CODE)
