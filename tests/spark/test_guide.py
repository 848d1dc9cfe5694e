"""What the guide to Spark shows runs, in its order, and prints what it says."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

TEXT = (Path(__file__).parents[2] / "docs" / "guides" / "spark.md").read_text(encoding="utf-8")
COLUMNS = "['topic', 'partition', 'offset', 'timestamp', 'key', 'value', 'headers']"

# All snippets in one process, and all commands in another: two starts of Java.
PROGRAM = """
import json, subprocess, sys

names = {}
for language, snippet in json.loads(sys.argv[1]):
    if language == "python":
        exec(compile(snippet, "a snippet", "exec"), names)
    else:
        command = [sys.executable, "-c", sys.argv[2], snippet]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
"""
COMMANDS = """
import shlex, sys
from lakebed.cli.main import main

for line in sys.argv[1].splitlines():
    program, *arguments = shlex.split(line)
    assert (program, main(arguments)) == ("lakebed", 0), line
"""

pytestmark = [pytest.mark.spark, pytest.mark.process, pytest.mark.timeout(900)]


def snippets() -> list[tuple[str, str]]:
    """Their language and what they are."""
    return re.findall(r"^```(python|sh)\n(.*?)^```", TEXT, flags=re.MULTILINE | re.DOTALL)


def test_every_snippet_runs(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, json.dumps(snippets()), COMMANDS],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        f"1000 {COLUMNS}",
        "1000 ['offset', 'value']",
        "[b'figs', b'dates']",
        "510 0 510",
        "1000",
        "1000",
        "0",
    ]
    assert list((tmp_path / "history").glob("*.csv"))
    assert list((tmp_path / "exported").rglob("*.parquet"))
