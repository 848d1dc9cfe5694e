"""The entry point: runs a command, and reports an error as one line and an exit code."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from lakebed.cli import failure, output


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command and returns the exit code of the process."""
    arguments = sys.argv[1:] if arguments is None else arguments
    output.buffer_unbuffered()
    output.tolerate_any_character()
    try:
        # Imported here, so that an interrupt during the imports is reported like any other.
        from lakebed.cli.program import run

        exit_code = run(arguments)
        output.flush()
    except BaseException as error:  # noqa: BLE001  (the one place where errors end)
        described = failure.describe(error)
        failure.report(
            described,
            as_json=failure.wants_json(arguments),
            traceback_of=error if os.environ.get("LAKEBED_TRACEBACK") == "1" else None,
        )
        exit_code = described.exit_code
    output.finish()
    return exit_code
