"""Finds the cause of a failed Spark job and states it in one line.

Spark wraps an exception of a Python worker in Java exceptions, as text with a traceback. For a
`LakebedError` in that text, the cause is an error of the same class, with its exit code. For other
errors, the cause is a `JobFailed` whose message is the last line of the Python traceback, else the
innermost Java cause, else the first line of the text.
"""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path

from lakebed.base.errors import LakebedError

_OURS = re.compile(r"^(lakebed(?:\.\w+)+)\.(\w+): (.+)$", re.MULTILINE)
_PYTHON = re.compile(r"^Traceback .*\n(?:[ \t].*\n)+([A-Za-z_][\w.]*(?:: .*)?)$", re.MULTILINE)
_JAVA = re.compile(r"^Caused by: (?:[\w$]+\.)*([\w$]+: .+)$", re.MULTILINE)
_STATE = re.compile(r"\s*SQLSTATE: \w{5}\s*$")
_MODULES = ("pyspark.", "py4j.", "grpc")
_TEXT_MAX = 2_000_000


class JobFailed(LakebedError):
    """A Spark job failed with an error that is not a `LakebedError`."""


def is_sparks(error: BaseException) -> bool:
    """Returns whether the class of the error is one of pyspark, Py4J or gRPC."""
    return any(kind.__module__.startswith(_MODULES) for kind in type(error).__mro__)


def cause_of(error: BaseException) -> LakebedError:
    """Returns the cause of a Spark error, found in its text."""
    text = str(error)[:_TEXT_MAX]
    for module, name, sentence in reversed(_OURS.findall(text)):
        kind = _kind(module, name)
        if kind is not None:
            return remade(kind, _STATE.sub("", sentence))
    for pattern in (_PYTHON, _JAVA):
        matches = pattern.findall(text)
        if matches:
            return JobFailed(_STATE.sub("", matches[-1]))
    return JobFailed(_first_line(text) or type(error).__name__)


def remade(kind: type[LakebedError], sentence: str) -> LakebedError:
    """Returns an error of class `kind` with the message `sentence`, without calling its
    constructor."""
    error = kind.__new__(kind)
    Exception.__init__(error, sentence)
    return error


def with_log(error: LakebedError, log: Path) -> LakebedError:
    """Returns an error of the same class whose message also has the path of Spark's log."""
    return remade(type(error), f"{error} (Spark's log: {log})")


def _kind(module: str, name: str) -> type[LakebedError] | None:
    try:
        kind = getattr(import_module(module), name, None)
    except ImportError:
        return None
    return kind if isinstance(kind, type) and issubclass(kind, LakebedError) else None


def _first_line(text: str) -> str:
    """Returns the first line that is not empty; for a Py4J error, the second such line, because the
    first has no information."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if lines and lines[0].startswith("An error occurred while calling") and len(lines) > 1:
        return lines[1].removeprefix(": ")
    return _STATE.sub("", lines[0]) if lines else ""
