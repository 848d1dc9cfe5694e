"""A stream of lines into a sink, by a driver that is killed and started again."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

from tests.tidy.repository import ROOT

ROWS = 20  # of a micro-batch


class KilledStream:
    """The files of a query; lines are added before each start."""

    def __init__(
        self, folder: Path, source: str, options: dict[str, str], *, columns: tuple[str, ...]
    ) -> None:
        """`columns` are expressions of the line, which is `value`."""
        self.mark = folder / "mark"
        self.row_count = 0
        self._lines = folder / "lines"
        self._lines.mkdir()
        self._document = folder / "stream.json"
        self._chosen = {
            "source": source,
            "options": {**options, "checkpointLocation": str(folder / "checkpoint")},
            "columns": columns,
            "lines": str(self._lines),
            "mark": str(self.mark),
        }

    @property
    def lines(self) -> list[str]:
        """What must have come, sorted."""
        return sorted(map(str, range(self.row_count)))

    def add_batches(self, count: int) -> None:
        for _ in range(count):
            numbers = range(self.row_count, self.row_count + ROWS)
            (self._lines / f"{self.row_count:06d}").write_text("\n".join(map(str, numbers)))
            self.row_count += ROWS

    def run(self, point: str, *, passes: int = 0) -> int:
        """Until it is done, or killed after so many commits that passed; its exit code."""
        self.mark.write_text(str(passes))
        self._document.write_text(json.dumps({**self._chosen, "point": point}))
        command = [sys.executable, "-m", "tests.spark.sink_driver", str(self._document)]
        environment = {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'src'}"}
        return subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode

    def run_until_killed(self, point: str, *, passes: int = 0) -> None:
        code = self.run(point, passes=passes)
        assert code == -signal.SIGKILL, f"{point}, after {passes} commits"
        assert not self.mark.exists()

    def run_to_the_end(self) -> None:
        """Also though one of its tasks is killed: it is tried again."""
        assert self.run("task") == 0
        assert not self.mark.exists()
