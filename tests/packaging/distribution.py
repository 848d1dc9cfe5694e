"""The archive and the wheel as `make dist` makes them, and an environment that has the wheel alone.

Made from a copy of the tree that knows no version control, once for all tests of a process.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
FOLDERS = ("src", "docs", "examples", "tools")
_LEFT = shutil.ignore_patterns("*.so", "*.c", "__pycache__", "*.egg-info")


class Distribution(NamedTuple):
    """The two files that are released."""

    archive: Path
    wheel: Path


def run(*command: str | Path, cwd: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """With nothing of this environment but where programs and packages are found."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("LAKEBED_", "PYTHON", "VIRTUAL_ENV"))
    }
    return subprocess.run(
        [str(word) for word in command],
        cwd=cwd,
        env=kept | variables,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )


def built(folder: Path) -> Distribution:
    """By the tools of this environment; a kernel that does not compile is an error."""
    tree = folder / "tree"
    for name in FOLDERS:
        shutil.copytree(ROOT / name, tree / name, ignore=_LEFT)
    for path in ROOT.iterdir():
        if path.is_file():
            shutil.copy(path, tree / path.name)
    output = folder / "dist"
    command = (sys.executable, "tools/dist.py", output)
    done = run(*command, cwd=tree, LAKEBED_REQUIRE_KERNELS="1")
    assert done.returncode == 0, done.stderr
    archive, wheel = map(Path, done.stdout.splitlines()[-2:])
    assert {archive, wheel} == set(output.iterdir())
    return Distribution(archive, wheel)


def installed(wheel: Path, folder: Path) -> Path:
    """Where the programs of a new environment are that has the wheel and what it depends on."""
    made = run(sys.executable, "-m", "venv", "--without-pip", folder, cwd=ROOT)
    assert made.returncode == 0, made.stderr
    pip = (sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check")
    python = folder / "bin" / "python"
    constraints = ROOT / "constraints.txt"
    done = run(*pip, "--python", python, "install", "--constraint", constraints, wheel, cwd=folder)
    assert done.returncode == 0, done.stderr
    return folder / "bin"
