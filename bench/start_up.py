"""How long the command line takes to be there, beside Python alone and other command lines.

A run is one process from its start to its end. What does not need the store must not wait for it:
that is a person at a shell, and every tab that is completed.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

from bench.row import Contestant, Row, Run, Unavailable

PYTHON = "python -c pass"
BIN = Path(sys.executable).parent
OURS = ("--version", "--help", "aof --help", "topic --help", "config show", "completion")
PEERS = ("aws --version", "rclone version")
_COMPLETING = {"_LAKEBED_COMPLETE": "complete_bash", "COMP_WORDS": "lakebed to", "COMP_CWORD": "1"}


def rows() -> Iterator[Row]:
    yield Row(
        name="cli/start-up",
        unit="starts",
        baseline=PYTHON,
        note="processes a second, one after the other",
        contestants=[
            Contestant(PYTHON, partial(starting, [sys.executable, "-c", "pass"])),
            *(Contestant(f"lakebed {words}", partial(_ours, words)) for words in OURS),
            *(Contestant(words, partial(_peer, words)) for words in PEERS),
        ],
    )


def _ours(words: str) -> Run:
    command = [sys.executable, "-m", "lakebed.cli"]
    if words == "completion":  # what a tab does
        return starting(command, _COMPLETING)
    return starting([*command, *words.split()])


def _peer(words: str) -> Run:
    program, *rest = words.split()
    found = shutil.which(program, path=str(BIN))
    if found is None:
        raise Unavailable(f"{program} is not installed")
    return starting([found, *rest])


def starting(command: Sequence[str], variables: Mapping[str, str] | None = None) -> Run:
    """Runs the command, which must succeed, and counts one."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("LAKEBED_")}
    environment = kept | dict(variables or {})

    def run() -> float:
        subprocess.run(
            command,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            check=True,
        )
        return 1.0

    return run
