"""The archive and the wheel as `make dist` makes them, and environments that have the wheel.

Made from a copy of the tree that knows no version control, by the Python that runs the tests or by
the one that `LAKEBED_PACKAGING_PYTHON` names.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
FOLDERS = ("src", "docs", "examples", "tools")
_LEFT = shutil.ignore_patterns("*.so", "*.c", "__pycache__", "*.egg-info")


class Distribution(NamedTuple):
    """The two files that are released."""

    archive: Path
    wheel: Path


def chosen_python() -> Path:
    """The interpreter to build for and to install into."""
    return Path(os.environ.get("LAKEBED_PACKAGING_PYTHON") or sys.executable)


def run(
    *command: str | Path, cwd: Path, timeout_s: float = 240, **variables: str
) -> subprocess.CompletedProcess[str]:
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
        timeout=timeout_s,
        check=False,
    )


def built(folder: Path, *, python: Path = Path(sys.executable)) -> Distribution:
    """By the tools of this environment, or of another made for `python`; kernels that do not
    compile are an error."""
    tree = folder / "tree"
    for name in FOLDERS:
        shutil.copytree(ROOT / name, tree / name, ignore=_LEFT)
    for path in ROOT.iterdir():
        if path.is_file():
            shutil.copy(path, tree / path.name)
    output = folder / "dist"
    builder = python
    if python != Path(sys.executable):
        builder = _environment(folder / "builder", python, "setuptools", "wheel", "Cython")
    done = run(builder, "tools/dist.py", output, cwd=tree, timeout_s=600)
    assert done.returncode == 0, done.stderr
    archive, wheel = map(Path, done.stdout.splitlines()[-2:])
    assert {archive, wheel} == set(output.iterdir())
    return Distribution(archive, wheel)


def installed(
    wheel: Path,
    folder: Path,
    *more: str,
    extras: Sequence[str] = (),
    python: Path = Path(sys.executable),
) -> Path:
    """Where the programs of a new environment are that has the wheel and what it depends on, with
    `extras` and `more` packages."""
    named = f"{wheel}[{','.join(extras)}]" if extras else str(wheel)
    return _environment(folder, python, named, *more).parent


def _environment(folder: Path, python: Path, *packages: str) -> Path:
    """The interpreter of a new one of `python`."""
    made = run(python, "-m", "venv", "--without-pip", folder, cwd=ROOT)
    assert made.returncode == 0, made.stderr
    pip = (sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check")
    interpreter = folder / "bin" / "python"
    constraints = ROOT / "constraints.txt"
    install = ("--python", interpreter, "install", "--constraint", constraints)
    done = run(*pip, *install, *packages, cwd=folder, timeout_s=600)
    assert done.returncode == 0, done.stderr
    return interpreter
