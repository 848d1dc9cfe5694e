"""The benchmark harness: turns, ratios, reports. No test here looks at a real time."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from bench.__main__ import all_rows, main
from bench.harness import Effort, Result, measure
from bench.report import markdown, rate, table, write_json
from bench.row import Contestant, Row, Run, Unavailable
from lakebed import kernels

pytestmark = pytest.mark.thorough


class SteppedClock:
    """Time passes only when a contestant says so."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s

    def worker(self, *, cost_s: float, calls: list[str], name: str) -> Run:
        def run() -> float:
            calls.append(name)
            self.now_s += cost_s
            return 10.0

        return run


def measured(calls: list[str], round_count: int = 3) -> Result:
    clock = SteppedClock()
    row = Row(
        name="work",
        unit="records",
        baseline="slow",
        contestants=[
            Contestant("fast", lambda: clock.worker(cost_s=1.0, calls=calls, name="fast")),
            Contestant("slow", lambda: clock.worker(cost_s=4.0, calls=calls, name="slow")),
            Contestant("absent", refuse),
        ],
    )
    return measure(row, Effort(round_count=round_count, turn_s=2.0), clock=clock)


def refuse() -> Run:
    raise Unavailable("the peer is not installed")


def test_contestants_take_turns_after_warming_up() -> None:
    calls: list[str] = []
    measured(calls, round_count=2)
    assert calls == ["fast", "slow", *["fast", "fast", "slow"] * 2]


def test_medians_are_compared_with_the_baseline() -> None:
    fast, slow, absent = measured([]).scores
    assert (fast.median, fast.ratio, fast.spread) == (10.0, 4.0, 0.0)
    assert (slow.median, slow.ratio) == (2.5, 1.0)
    assert absent.missing == "the peer is not installed"


def test_a_context_manager_is_left_after_the_last_round() -> None:
    steps: list[str] = []

    @contextmanager
    def setup() -> Iterator[Run]:
        steps.append("enter")
        yield run
        steps.append("leave")

    def run() -> float:
        steps.append("run")
        return 1.0

    row = Row(name="r", unit="runs", baseline="a", contestants=[Contestant("a", setup)])
    measure(row, Effort(round_count=2, turn_s=0))
    assert steps == ["enter", "run", "run", "run", "leave"]


def test_a_row_needs_its_baseline_and_different_names() -> None:
    one = Contestant("a", refuse)
    with pytest.raises(ValueError, match="baseline"):
        Row(name="r", unit="runs", baseline="b", contestants=[one])
    with pytest.raises(ValueError, match="one name"):
        Row(name="r", unit="runs", baseline="a", contestants=[one, one])


def test_reports_hold_every_contestant(tmp_path: Path) -> None:
    results = [measured([])]
    text = table(results)
    assert "fast        10 records/s" in text
    assert "not run: the peer is not installed" in text
    page = markdown(results, {"cpu": "a fast one", "revision": ""})
    assert "| work | slow | 2.5 records/s | 0% | baseline |" in page
    assert "- cpu: a fast one" in page
    assert "revision" not in page
    path = write_json(results, {"cpu": "a fast one"}, folder=tmp_path, name="today")
    assert (tmp_path / "latest.json").read_bytes() == path.read_bytes()
    document = json.loads(path.read_text())
    assert document["rows"][0]["contestants"][0]["rates_per_s"] == [10.0, 10.0, 10.0]


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.5, "0.5 b/s"), (21_500_000, "21.5 M b/s"), (4.4e10, "44 G b/s"), (1234, "1.23 k b/s")],
)
def test_rates_have_three_digits_and_a_prefix(value: float, text: str) -> None:
    assert rate(value, "b") == text


def test_rows_have_names_of_their_own() -> None:
    names = [row.name for row in all_rows()]
    assert len(set(names)) == len(names)
    assert {"aof/encode/100 B", "keratin/scan/1 KiB", "crc64nvme/1 MiB"} <= set(names)


@pytest.mark.skipif(not kernels.COMPILED, reason="needs the compiled kernels")
def test_a_quick_run_writes_its_results(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = tmp_path / "page.md"
    options = ["--quick", "--name", "try", "--results", str(tmp_path), "--markdown", str(page)]
    assert main([*options, "crc32c/100 B"]) == 0
    assert "PyPI crc32c" in capsys.readouterr().out
    assert json.loads((tmp_path / "try.json").read_text())["machine"]["cores"] >= 1
    assert page.read_text().startswith("# Benchmarks")


def test_without_compiled_kernels_nothing_is_measured(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(kernels, "COMPILED", False)
    assert main(["--quick"]) == 1
    assert "the compiled kernels are not in use" in capsys.readouterr().err


def test_an_unknown_pattern_is_told(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(kernels, "COMPILED", True)
    assert main(["no such row"]) == 64
    assert "--list" in capsys.readouterr().err
