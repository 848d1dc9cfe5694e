"""`manifest-inspect LOG … [--root DIR] [--json]`: `lakebed --root DIR manifest inspect LOG …`.

Here the options of the top level may stand anywhere before a `--`.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from itertools import pairwise

from lakebed.cli import main as program
from lakebed.cli.aof2_admin import translated


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; the returned number is the process's exit code."""
    return program.main(arranged(sys.argv[1:] if arguments is None else arguments))


def arranged(arguments: Sequence[str]) -> list[str]:
    """As `aof2-admin` arranges them, with another group before the command."""
    words = translated(["inspect", *arguments])
    for index, pair in enumerate(pairwise(words)):
        if pair == ("aof", "inspect"):
            return [*words[:index], "manifest", *words[index + 1 :]]
    return words  # an option lacks its value, and the parser says so


if __name__ == "__main__":
    sys.exit(main())
