"""Runs `lakebed` in a process of its own (`lakebed`) or in the test process (`run`)."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.cli.in_process import Run, runner

TIMEOUT_S = 200


class Finished(NamedTuple):
    """How a command ended."""

    exit_code: int
    out: str
    err: str

    def error_line(self) -> str:
        """The one line that an error must be."""
        assert self.out == ""
        assert self.err.endswith("\n")
        assert self.err.count("\n") == 1, self.err
        assert "Traceback" not in self.err
        assert self.err[:-1].isprintable()
        assert self.err.startswith("lakebed: ")
        return self.err.removeprefix("lakebed: ").rstrip("\n")

    def document(self) -> Any:
        """The one JSON document on standard output."""
        assert self.err == ""
        return json.loads(self.out)


Lakebed = Callable[..., Finished]


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """The tests' own environment without any setting of the store."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("LAKEBED_")}
    return kept | {"HOME": str(tmp_path)}


@pytest.fixture
def lakebed(tmp_path: Path, environment: dict[str, str]) -> Lakebed:
    """Run the command line in an empty folder, with variables set as asked."""

    def run(*arguments: str | bytes | Path, **variables: str) -> Finished:
        done = subprocess.run(
            [sys.executable, "-m", "lakebed.cli", *arguments],
            cwd=tmp_path,
            env=environment | variables,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )
        return Finished(done.returncode, done.stdout, done.stderr)

    return run


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "root"


@pytest.fixture
def run(
    root: Path, monkeypatch: pytest.MonkeyPatch, capsysbinary: pytest.CaptureFixture[bytes]
) -> Run:
    return runner(root, monkeypatch, capsysbinary)
