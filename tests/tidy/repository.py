"""The files the tidy tests look at."""

from __future__ import annotations

import subprocess
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "lakebed"

FILE_LINES_MAX = 500
FUNCTION_LINES_MAX = 60

# Where the tree is no git checkout (an unpacked archive): everything but what tools leave behind.
_NOT_OURS = frozenset({".git", ".venv", "build", "dist", "__pycache__", "lakebed-data"})


@cache
def modules() -> tuple[Path, ...]:
    """Every Python module of the package."""
    return tuple(sorted(SOURCE.rglob("*.py")))


@cache
def tracked() -> tuple[Path, ...]:
    """Every file that is or would be committed."""
    try:
        listed = subprocess.run(
            ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
            cwd=ROOT,
            check=True,
            capture_output=True,
        ).stdout.decode()
        paths = [ROOT / name for name in listed.split("\0") if name]
    except (OSError, subprocess.CalledProcessError):
        paths = [path for path in ROOT.rglob("*") if not _is_leftover(path)]
    return tuple(sorted(path for path in paths if path.is_file()))


def _is_leftover(path: Path) -> bool:
    return any(
        part in _NOT_OURS or part.endswith((".egg-info", "_cache"))
        for part in path.relative_to(ROOT).parts
    )
