"""What a figure depends on: the machine, the interpreter, the kernels, the revision."""

from __future__ import annotations

import os
import platform
import subprocess
from pathlib import Path

from lakebed import __version__, kernels

ROOT = Path(__file__).parents[1]


def facts() -> dict[str, object]:
    return {
        "cpu": _cpu_name(),
        "cores": os.cpu_count(),
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "lakebed": __version__,
        "kernels": " ".join(("compiled", *kernels.features())) if kernels.COMPILED else "reference",
        "revision": _revision(),
    }


def _cpu_name() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor()
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.processor())


def _revision() -> str:
    """The commit, with a plus sign if files were changed since; empty outside a checkout."""
    try:
        head = _git("rev-parse", "--short=12", "HEAD")
        return head + ("+" if _git("status", "--porcelain") else "")
    except (OSError, subprocess.CalledProcessError):
        return ""


def _git(*arguments: str) -> str:
    done = subprocess.run(
        ["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=True, timeout=10
    )
    return done.stdout.strip()
