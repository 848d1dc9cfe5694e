"""What the guide to Spark shows runs, in its order, and prints what it says."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path

import pytest

TEXT = (Path(__file__).parents[2] / "docs" / "guides" / "spark.md").read_text(encoding="utf-8")
COLUMNS = "['topic', 'partition', 'offset', 'timestamp', 'key', 'value', 'headers']"

# All commands in one process, with one Java.
PROGRAM = """
import json, sys
from lakebed.cli.main import main

for command in json.loads(sys.argv[1]):
    code = main(command)
    assert code == 0, (command, code)
"""

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]


def snippets() -> list[tuple[str, str]]:
    """Their language and what they are."""
    return re.findall(r"^```(python|sh)\n(.*?)^```", TEXT, flags=re.MULTILINE | re.DOTALL)


def test_every_snippet_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    names: dict[str, object] = {}
    printed = StringIO()
    for number, (language, snippet) in enumerate(snippets()):
        if language == "sh":
            run_commands(snippet, tmp_path)
            continue
        with redirect_stdout(printed):
            exec(compile(snippet, f"snippet {number}", "exec"), names)  # noqa: S102
    assert printed.getvalue().splitlines() == [
        f"1000 {COLUMNS}",
        "1000 ['offset', 'value']",
        "[b'figs', b'dates']",
        "100",
        "1000",
        "1000",
        "0",
    ]
    assert list((tmp_path / "history").glob("*.csv"))
    assert list((tmp_path / "exported").rglob("*.parquet"))


def run_commands(lines: str, folder: Path) -> None:
    commands = [shlex.split(line) for line in lines.splitlines()]
    assert {command.pop(0) for command in commands} == {"lakebed"}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, json.dumps(commands)],
        check=False,
        cwd=folder,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, (done.stdout, done.stderr)
