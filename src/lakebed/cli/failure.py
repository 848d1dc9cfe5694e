"""Reports an exception as one line on standard error and an exit code.

    LakebedError            its message, its `exit_code`
    usage error             what is wrong and where to find help, 2
    interrupt               "interrupted", and the reason if stopping failed too, 130
    closed pipe             no message, 141: as if the signal had ended the program
    OSError                 path and reason, with the exit codes of the store's own errors
    ImportError             what this installation lacks, 69
    MemoryError             "out of memory", 71
    typer.Abort             "aborted", 1
    SystemExit              no message, its own code
    any other exception     "this is a bug" and how to see the traceback, 70

With `--json` the line is one document: `{"error": {"kind": …, "message": …, "exit_code": …}}`.
"""

from __future__ import annotations

import json
import os
import sys
import traceback
from collections.abc import Sequence
from itertools import takewhile
from typing import NamedTuple

from lakebed.base.errors import LakebedError, from_os_error
from lakebed.cli.report import one_line

INCOMPLETE_EXIT_CODE = 69
BUG_EXIT_CODE = 70
OUT_OF_MEMORY_EXIT_CODE = 71
INTERRUPT_EXIT_CODE = 130
CLOSED_PIPE_EXIT_CODE = 141


class Failure(NamedTuple):
    """How a command failed. A failure with an empty message is not printed."""

    kind: str
    message: str
    exit_code: int


def describe(error: BaseException) -> Failure:
    """Returns the kind, the message and the exit code to report for an exception."""
    failure = _describe(error)
    if failure.exit_code != INTERRUPT_EXIT_CODE and _follows_an_interrupt(error):
        return Failure("Interrupted", f"interrupted; {failure.message}", INTERRUPT_EXIT_CODE)
    return failure


def _follows_an_interrupt(error: BaseException) -> bool:
    """Returns whether the error was raised while an interrupt was being handled."""
    before = error.__context__
    while before is not None and not isinstance(before, KeyboardInterrupt):
        before = before.__context__
    return before is not None


def _describe(error: BaseException) -> Failure:
    kind = type(error).__name__
    match error:
        case LakebedError():
            return Failure(kind, str(error), error.exit_code)
        case KeyboardInterrupt():
            return Failure("Interrupted", "interrupted", INTERRUPT_EXIT_CODE)
        case BrokenPipeError():
            return Failure("ClosedPipe", "", CLOSED_PIPE_EXIT_CODE)
        case OSError():
            return _os_failure(error, kind)
        case ImportError():
            return Failure("Incomplete", str(error) or kind, INCOMPLETE_EXIT_CODE)
        case MemoryError():
            return Failure("OutOfMemory", "out of memory", OUT_OF_MEMORY_EXIT_CODE)
        case SystemExit():
            return Failure(kind, "", error.code if isinstance(error.code, int) else 1)
    return _usage_failure(error) or _bug(error, kind)


def report(failure: Failure, *, as_json: bool, traceback_of: BaseException | None) -> None:
    """Writes the failure to standard error, after the traceback of `traceback_of`, if given."""
    if sys.stderr is None:
        return
    if traceback_of is not None:
        traceback.print_exception(traceback_of)
    if not failure.message:
        return
    if as_json:
        sys.stderr.write(json.dumps({"error": failure._asdict()}) + "\n")
    else:
        sys.stderr.write(f"lakebed: {one_line(failure.message)}\n")


def wants_json(arguments: Sequence[str]) -> bool:
    """Returns whether `--json` is among the arguments before `--`, without parsing them: the
    failure to report may be that they cannot be parsed."""
    return "--json" in takewhile(lambda argument: argument != "--", arguments)


def _os_failure(error: OSError, kind: str) -> Failure:
    reason = error.strerror or str(error) or kind
    if error.filename is None:
        return Failure(kind, reason, from_os_error(error, operation="use", path="").exit_code)
    where = os.fsdecode(error.filename) if isinstance(error.filename, bytes) else error.filename
    translated = from_os_error(error, operation="use", path=str(where))
    return Failure(kind, f"{where}: {reason}", translated.exit_code)


def _usage_failure(error: BaseException) -> Failure | None:
    # If typer was never imported, this is not one of its errors.
    typer = sys.modules.get("typer")
    if typer is None or not isinstance(error, typer.TyperException | typer.Abort):
        return None
    if isinstance(error, typer.Abort):
        return Failure("Aborted", "aborted", 1)
    # The library breaks lines for layout only. Everything else is escaped as in any message.
    message = " ".join(error.format_message().split())
    context = getattr(error, "ctx", None)
    if context is not None:
        message += f" (see {context.command_path} --help)"
    return Failure("Usage", message, error.exit_code)


def _bug(error: BaseException, kind: str) -> Failure:
    detail = f"{kind}: {error}" if str(error) else kind
    message = f"{detail} (this is a bug; set LAKEBED_TRACEBACK=1 to see the traceback)"
    return Failure("Bug", message, BUG_EXIT_CODE)
