"""`lakebed demo`, from the outside: what it prints in the end, and how it exits."""

from __future__ import annotations

import dataclasses
import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer

from lakebed.cli.demo import end, ended_by_signals
from lakebed.cli.output import Output
from lakebed.node.demo.checks import Check
from lakebed.node.demo.summary import Summary
from lakebed.node.demo.tiers import TierSizes
from tests.cli.conftest import Lakebed
from tests.cli.in_process import Run

GOOD = Summary(
    seed=1,
    is_compiled=True,
    seconds=61.2,
    checks=(Check("rows landed", 1000, 1000), Check("events stored twice", 0, 0)),
    rates={"events produced": 123456},
    sizes={"topic": 3 << 20},
    tiers=(TierSizes("sealed", 1 << 20, 0, 0), TierSizes("evicted --warm", 0, 0, 2048)),
    plot="/tmp/plot.png",
    next_steps=("lakebed demo --scratch here",),
)
BAD = dataclasses.replace(GOOD, checks=(*GOOD.checks, Check("ids in the table", 1000, 999)))


def test_a_run_whose_counts_agree_ends_well(capsys: pytest.CaptureFixture[str]) -> None:
    end(Output(as_json=False), GOOD)
    lines = capsys.readouterr().out.splitlines()
    assert lines[-1].startswith("all 2 counts agree")
    for told in ("123,456", "3.0 MiB", "2.0 KiB", "/tmp/plot.png", "lakebed demo --scratch here"):
        assert any(told in line for line in lines), told
    assert not any("!!" in line for line in lines)


def test_a_count_that_disagrees_is_marked_and_the_exit_code_says_so(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(typer.Exit) as caught:
        end(Output(as_json=False), BAD)
    assert caught.value.exit_code == 65
    lines = capsys.readouterr().out.splitlines()
    (marked,) = [line for line in lines if line.endswith("!!")]
    assert marked.split() == ["ids", "in", "the", "table", "1,000", "999", "!!"]
    assert lines[-1] == "1 count does not agree: ids in the table"


def test_the_document_says_so_too(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(typer.Exit):
        end(Output(as_json=True), BAD)
    assert json.loads(capsys.readouterr().out)["ok"] is False


def test_what_was_left_out_is_reported(capsys: pytest.CaptureFixture[str]) -> None:
    left = dataclasses.replace(GOOD, left_out=("spark: no Java",), folder="/tmp/kept")
    end(Output(as_json=False), left)
    lines = capsys.readouterr().out.splitlines()
    assert {"skipped: spark: no Java", "files: /tmp/kept"} < set(lines)


@pytest.fixture
def usual_handling() -> Iterator[None]:
    """A run in the background ignores some, and libraries of earlier tests handle others."""
    before = {one: signal.signal(one, signal.SIG_DFL) for one in (signal.SIGTERM, signal.SIGHUP)}
    before[signal.SIGINT] = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.usefixtures("usual_handling")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_it_whatever_goes_wrong_then(number: signal.Signals) -> None:
    before = signal.getsignal(number)
    done = []

    def work() -> None:
        with ended_by_signals():
            try:
                os.kill(os.getpid(), number)
                done.append("more")
            finally:
                os.kill(os.getpid(), number)  # does not disturb what ends it
                done.append("cleared up")
                raise ValueError

    with pytest.raises(KeyboardInterrupt):
        work()
    assert done == ["cleared up"]
    assert signal.getsignal(number) == before


def test_without_a_signal_an_error_is_what_it_was() -> None:
    def work() -> None:
        with ended_by_signals():
            raise ValueError

    with pytest.raises(ValueError):  # noqa: PT011 - which one is all that counts
        work()


def test_a_bad_scratch_folder_is_one_line(run: Run, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    done = run("demo", "--scratch", tmp_path / "file")
    assert done.out == b""
    assert done.error_line()
    assert done.exit_code not in (0, 70)
    done = run("demo", "--scratch", tmp_path)
    assert "use a new folder" in done.error_line()
    assert done.exit_code not in (0, 70)


def test_too_few_events_are_a_mistake(lakebed: Lakebed) -> None:
    done = lakebed("demo", "--events", "10")
    assert "--events" in done.error_line()
    assert done.exit_code == 2
