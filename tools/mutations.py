"""Puts old faults back, one at a time, and has the simulator find them.

    python -m tools.mutations [--minutes 10] [--steps 1000] [NAME …]

Each `tests/simulation/mutations/*.patch` is applied to a copy of `src`, and the simulator runs there
with its default weights and consecutive seeds from 1 until a promise is broken, or the time is over.
The exit code is 1 if one was not found.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

REPOSITORY = Path(__file__).resolve().parent.parent
PATCHES = REPOSITORY / "tests" / "simulation" / "mutations"


class Found(NamedTuple):
    """What the simulator said of one fault."""

    name: str
    broken: str  # the promise; empty if none was broken
    replay: str
    seconds: float


def patches(names: Sequence[str] = ()) -> list[Path]:
    """All of them, or those whose names begin so."""
    every = sorted(PATCHES.glob("*.patch"))
    return [path for path in every if not names or path.name.startswith(tuple(names))]


def apply(patch: Path, folder: Path) -> None:
    """To a copy of the sources below `folder`."""
    subprocess.run(["git", "apply", str(patch)], cwd=folder, check=True)


def hunt(patch: Path, *, minutes: float, steps: int) -> Found:
    """Run the simulator on a copy of the sources with that patch."""
    with tempfile.TemporaryDirectory(prefix="lakebed-mutation-") as scratch:
        folder = Path(scratch)
        ignored = shutil.ignore_patterns("__pycache__", "*.egg-info")
        shutil.copytree(REPOSITORY / "src", folder / "src", ignore=ignored)
        apply(patch, folder)
        command = [
            sys.executable, "-m", "lakebed.cli", "simulate", "--seed", "1",
            "--steps", str(steps), "--minutes", str(minutes), "--no-shrink",
        ]  # fmt: skip
        environment = {**os.environ, "PYTHONPATH": str(folder / "src")}
        started = time.monotonic()
        done = subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, text=True, check=False
        )
        seconds = time.monotonic() - started
    lines = done.stdout.splitlines()
    if done.returncode == 0:
        return Found(patch.stem, "", "", seconds)
    if done.returncode != 1:
        raise SystemExit(f"{patch.stem}: the simulator failed:\n{done.stderr[-2000:]}")
    return Found(patch.stem, lines[-2].removeprefix("BROKEN "), lines[-1], seconds)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.mutations", description=__doc__)
    parser.add_argument("names", nargs="*", help="only those whose names begin so")
    parser.add_argument("--minutes", type=float, default=10.0, help="for each of them")
    parser.add_argument("--steps", type=int, default=1000, help="of each run")
    chosen = parser.parse_args(arguments)
    missed = 0
    for patch in patches(chosen.names):
        found = hunt(patch, minutes=chosen.minutes, steps=chosen.steps)
        missed += not found.broken
        told = f"{found.broken[:110]} [{found.replay}]" if found.broken else "NOT FOUND"
        print(f"{found.name}: {found.seconds:.0f} s: {told}", flush=True)
    print(f"{len(patches(chosen.names)) - missed} found, {missed} not")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
