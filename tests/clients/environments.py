"""Where `tools/clients.py` has put the clients that do not live in this environment."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

FOLDER = Path(sys.prefix) / "clients"


def installed(name: str, program: str) -> Path:
    """A file of an installed client."""
    path = FOLDER / name / program
    if not path.exists():
        pytest.fail(f"{name} is not installed: run `make clients`")
    return path
