"""A stream into a topic whose driver is killed, and started again: each message is there once."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from random import Random

import pytest

from tests.spark.sinks import POINTS, all_values, make_topic, staged_names
from tests.tidy.repository import ROOT

ROWS = 20  # of a micro-batch


class Stream:
    """The files of a query; lines are added before each start."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "root"
        self.lines = folder / "lines"
        self.mark = folder / "mark"
        self.checkpoint = folder / "checkpoint"
        self.row_count = 0
        self.lines.mkdir()
        make_topic(self.root, "t", 3)

    def add_batches(self, count: int) -> None:
        for _ in range(count):
            numbers = range(self.row_count, self.row_count + ROWS)
            (self.lines / f"{self.row_count:06d}").write_text("\n".join(map(str, numbers)))
            self.row_count += ROWS

    def run(self, point: str, *, passes: int = 0) -> int:
        """Until it is done, or killed after so many commits that passed; its exit code."""
        self.mark.write_text(str(passes))
        paths = [str(path) for path in (self.root, self.lines, self.checkpoint)]
        command = [sys.executable, "-m", "tests.spark.sink_driver", *paths, point, str(self.mark)]
        environment = {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'src'}"}
        return subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode

    def check(self) -> None:
        assert all_values(self.root, "t") == sorted(b"%d" % n for n in range(self.row_count))


@pytest.mark.spark
@pytest.mark.process
@pytest.mark.timeout(1800)
def test_a_driver_that_is_killed_leaves_each_message_once(tmp_path: Path) -> None:
    stream = Stream(tmp_path)
    for point, passes in (("decided", 0), ("done", 1)):
        stream.add_batches(1)
        assert stream.run(point, passes=passes) == -signal.SIGKILL
        assert not stream.mark.exists()
    stream.add_batches(1)
    assert stream.run("task") == 0, "a task whose process is killed is tried again"
    assert not stream.mark.exists()
    stream.check()
    assert staged_names(stream.root) == []


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.process
@pytest.mark.timeout(7200)
def test_twenty_kills_leave_each_message_once(tmp_path: Path) -> None:
    seed = int(os.environ.get("LAKEBED_CASE", "1"))
    random = Random(seed)
    stream = Stream(tmp_path)
    for number in range(20):
        point = POINTS[1:][number % 4] if number < 4 else random.choice(POINTS[1:])
        # The batch that was killed last is repeated first.
        passes = random.randint(0, 2)
        stream.add_batches(passes + (number == 0))
        code = stream.run(point, passes=passes)
        assert code == -signal.SIGKILL, f"{point} of LAKEBED_CASE={seed}"
    stream.add_batches(1)
    assert stream.run("task") == 0
    stream.check()
    assert staged_names(stream.root) == []
