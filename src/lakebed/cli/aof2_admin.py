"""`aof2-admin COMMAND …`: the same as `lakebed aof COMMAND …`."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from lakebed.cli import main as program


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; the returned number is the process's exit code."""
    return program.main(["aof", *(sys.argv[1:] if arguments is None else arguments)])


if __name__ == "__main__":
    sys.exit(main())
