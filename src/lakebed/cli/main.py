"""The entry point: runs the program and lets no error out but as one line and an exit code."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from lakebed.cli import failure, output


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; the returned number is the process's exit code."""
    arguments = sys.argv[1:] if arguments is None else arguments
    output.tolerate_any_character()
    try:
        # Imported here, so that an interrupt during the imports is told like any other.
        from lakebed.cli.program import run

        exit_code = run(arguments)
        output.flush()
    except BaseException as error:  # noqa: BLE001  (the one place where errors end)
        told = failure.describe(error)
        failure.report(
            told,
            as_json=failure.wants_json(arguments),
            traceback_of=error if os.environ.get("LAKEBED_TRACEBACK") == "1" else None,
        )
        exit_code = told.exit_code
    output.finish()
    return exit_code
