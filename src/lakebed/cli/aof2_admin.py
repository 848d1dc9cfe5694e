"""`aof2-admin COMMAND … [--root DIR] [--json]`: the same as `lakebed --root DIR aof COMMAND …`.

Here the options of the top level may stand anywhere before a `--`.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from lakebed.cli import main as program


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; the returned number is the process's exit code."""
    return program.main(translated(sys.argv[1:] if arguments is None else arguments))


def translated(arguments: Sequence[str]) -> list[str]:
    """The arguments as `lakebed` has them: its own options first, then the group."""
    top: list[str] = []
    command: list[str] = []
    remaining = iter(arguments)
    for argument in remaining:
        if argument == "--":
            command += [argument, *remaining]
        elif argument == "--root":
            top += [argument, *(value for value in [next(remaining, None)] if value is not None)]
        elif argument == "--json" or argument.startswith("--root="):
            top.append(argument)
        else:
            command.append(argument)
    # An option that lacks its value stays last, where the parser says so.
    return [*top, "aof", *command] if top[-1:] != ["--root"] else [*top]


if __name__ == "__main__":
    sys.exit(main())
