"""The progress of a job: drawn on a terminal, and nowhere else; and its summary."""

from __future__ import annotations

import io
from collections.abc import Iterable
from typing import Any

import pytest

from lakebed.base.clock import NS_PER_S
from lakebed.base.runner import ThreadRunner
from lakebed.base.simulation.clock import SimulatedClock
from lakebed.cli.output import Output
from lakebed.cli.report import Part, document_of
from lakebed.cli.spark_run import Finished
from lakebed.cli.spark_watcher import TerminalWatcher
from lakebed.spark.jobs.report import Report
from tests.cli.terminal import Terminal


@pytest.fixture(autouse=True)
def terminal_type(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")


@pytest.fixture
def clock() -> SimulatedClock:
    return SimulatedClock()


def watcher(clock: SimulatedClock, stream: io.StringIO) -> TerminalWatcher:
    output = Output(as_json=False)
    return TerminalWatcher(output, runner=ThreadRunner(clock=clock), stream=stream)


def test_a_bar_shows_what_is_done_and_how_fast(clock: SimulatedClock) -> None:
    terminal = Terminal()
    watching = watcher(clock, terminal)
    watching.begin("replay", total=4_000)
    assert terminal.shown() == "replay"
    clock.advance(2 * NS_PER_S)
    watching.advance(1_000, size_bytes=4 << 20)
    bar, _, text = terminal.shown().removeprefix("replay ").partition(" ")
    assert set(bar) <= {"━", "╸", "╺"}
    assert text.strip() == "25% 1,000 rows, 500 rows/s, 4.0 MiB, 2.0 MiB/s"
    watching.advance(2_000)  # too soon to be drawn
    assert "1,000 rows" in terminal.shown()
    watching.finish()
    assert terminal.shown() == ""


def test_without_a_total_there_is_no_bar(clock: SimulatedClock) -> None:
    terminal = Terminal()
    watching = watcher(clock, terminal)
    watching.begin("land", unit="messages")
    clock.advance(NS_PER_S)
    watching.advance(10)
    assert terminal.shown() == "land 10 messages, 10 messages/s"


def test_more_than_everything_is_everything(clock: SimulatedClock) -> None:
    terminal = Terminal()
    watching = watcher(clock, terminal)
    watching.begin("x", total=1)
    watching.advance(5)
    assert "━ 100% 5 rows" in terminal.shown()


def test_a_line_stays_and_the_bar_makes_room(
    clock: SimulatedClock, capsys: pytest.CaptureFixture[str]
) -> None:
    terminal = Terminal()
    watching = watcher(clock, terminal)
    watching.begin("a\x1b[2J")
    assert "\x1b[2J" not in terminal.getvalue(), "names may come from anybody"
    watching.report_line("Spark UI: here")
    assert terminal.shown() == ""
    assert capsys.readouterr().out == "Spark UI: here\n"


def test_nothing_is_drawn_where_nobody_looks(clock: SimulatedClock) -> None:
    stream = io.StringIO()
    watching = watcher(clock, stream)
    watching.begin("x", total=5)
    watching.advance(5)
    watching.finish()
    assert stream.getvalue() == ""


def lines_of(parts: Iterable[Part]) -> list[str]:
    return [line for part in parts for line in part.lines()]


def test_a_summary_has_rates_and_facts() -> None:
    report = Report(
        "replay",
        row_count=3_000,
        size_bytes=2 << 20,
        facts={"to": "again", "done_before": False, "files": 1_200, "offsets": {"0": 7}},
        lines=("one", "two"),
    )
    finished = Finished(report=report, seconds=2.0, spark_ui="http://127.0.0.1:4040")
    assert lines_of(finished.parts()) == [
        "one",
        "two",
        "replay: done in 2.0 s, 3,000 rows (1,500 rows/s), 2.0 MiB (1.0 MiB/s)",
        "  to: again",
        "  done before: no",
        "  files: 1,200",
        '  offsets: {"0": 7}',
    ]
    document: Any = document_of(finished.parts())
    assert (document["rows"], document["rows_per_second"]) == (3_000, 1_500)
    assert (document["bytes"], document["bytes_per_second"]) == (2 << 20, 1 << 20)
    assert (document["facts"], document["good"]) == (report.facts, True)


def test_what_is_not_good_has_failed() -> None:
    report = Report("verify", is_good=False)
    finished = Finished(report=report, seconds=0.0, spark_ui=None)
    assert lines_of(finished.parts()) == ["verify: failed in 0.0 s, 0 rows (0 rows/s)"]
    assert document_of(finished.parts())["good"] is False
