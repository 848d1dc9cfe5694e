"""Runs of the simulator: seeds, kept failures, and what a failure prints."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from lakebed.base.clock import SystemClock
from lakebed.simulator import checks
from lakebed.simulator.campaign import run_seeds
from lakebed.simulator.context import Context
from lakebed.simulator.drawing import draw_plan
from lakebed.simulator.plan import Plan
from lakebed.simulator.run import run_plan
from lakebed.simulator.violation import Promise, Violation
from tests.cli.in_process import Run, runner

CASES = sorted((Path(__file__).parent / "cases").glob("*.json"))


@pytest.fixture
def run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
) -> Run:
    return runner(tmp_path / "root", monkeypatch, capfdbinary)


@pytest.mark.sweep
@pytest.mark.parametrize("seed", range(1, 13))
def test_no_promise_is_broken(seed: int) -> None:
    result = run_plan(draw_plan(seed, 250))
    assert result.violation is None, f"lakebed simulate --seed {seed} --steps 250"


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1, 201))
def test_no_promise_is_broken_in_long_runs(seed: int) -> None:
    result = run_plan(draw_plan(seed, 1000))
    assert result.violation is None, f"lakebed simulate --seed {seed} --steps 1000"


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_a_failure_that_was_fixed_does_not_come_back(path: Path) -> None:
    result = run_plan(Plan.decode(path.read_text(encoding="utf-8"), path=path.name))
    assert result.violation is None, f"lakebed simulate --replay {path.name}"


def test_one_seed_gives_one_trace() -> None:
    first, second = (run_plan(draw_plan(7, 150)) for _ in range(2))
    assert first.trace.lines == second.trace.lines
    assert first.trace.lines


@pytest.mark.process
def test_a_seed_gives_the_same_trace_in_another_process() -> None:
    """Whatever the hashes, the addresses and the garbage of a process are."""
    program = (
        "from lakebed.simulator.drawing import draw_plan\n"
        "from lakebed.simulator.run import run_plan\n"
        "print(*(run_plan(draw_plan(seed, 300)).trace.digest() for seed in (1, 7)))"
    )
    printed = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for hash_seed in ("0", "1")
    }
    assert len(printed) == 1


@pytest.mark.process
def test_seeds_give_the_same_in_one_process_and_in_several() -> None:
    campaigns = [
        run_seeds(
            1,
            step_count=60,
            seed_count=5,
            seconds_max=None,
            clock=SystemClock(),
            job_count=job_count,
        )
        for job_count in (1, 2)
    ]
    assert campaigns[0].coverage == campaigns[1].coverage
    assert campaigns[0].seed_count == campaigns[1].seed_count == 5


def test_steps_survive_their_file() -> None:
    plan = draw_plan(3, 60)
    assert Plan.decode(plan.encode(), path="plan.json").encode() == plan.encode()


def test_a_broken_promise_ends_with_1_and_the_command_that_repeats_it(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(_context: Context) -> None:
        raise Violation(Promise.QUIET, "planted by this test")

    monkeypatch.setattr(checks, "check_quiet", broken)

    done = run("simulate", "--seed", "2", "--steps", "5", "--save", tmp_path / "kept")

    assert done.exit_code == 1
    lines = done.out.decode().splitlines()
    assert any("planted by this test" in line for line in lines)
    assert lines[-1] == "lakebed simulate --seed 2 --steps 5"
    assert [path.suffix for path in (tmp_path / "kept").iterdir()] == [".json"]


def test_a_clean_run_ends_with_0(run: Run) -> None:
    assert run("simulate", "--seed", "2", "--steps", "20").lines()[-1] == "no promise was broken"


def test_a_file_that_holds_no_steps_is_refused(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "steps.json"
    path.write_text("[]")
    assert run("simulate", "--replay", path).exit_code == 64
