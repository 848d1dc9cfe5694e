"""The program `aof2-admin COMMAND …`, which does the same as `lakebed aof COMMAND …`."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from lakebed.cli import main as program


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command and returns the exit code of the process."""
    return program.main(["aof", *(sys.argv[1:] if arguments is None else arguments)])


if __name__ == "__main__":
    sys.exit(main())
