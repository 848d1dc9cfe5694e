"""Why a job failed, in one line: what our code raised, wherever Spark ran it.

Spark wraps what a Python worker raised into text, with a traceback, in exceptions of Java's. The
line of a `LakebedError` in it is told as that error again, with its exit code; of other errors,
what the traceback ends with; else the first line, or the innermost cause of Java's.
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
    """What runs in Spark failed, and not by an error of the store."""


def is_sparks(error: BaseException) -> bool:
    """Whether it came through Spark, and is to be looked into."""
    return any(kind.__module__.startswith(_MODULES) for kind in type(error).__mro__)


def cause_of(error: BaseException) -> LakebedError:
    """What it was."""
    text = str(error)[:_TEXT_MAX]
    for module, name, sentence in reversed(_OURS.findall(text)):
        kind = _kind(module, name)
        if kind is not None:
            return remade(kind, _STATE.sub("", sentence))
    for pattern in (_PYTHON, _JAVA):
        found = pattern.findall(text)
        if found:
            return JobFailed(_STATE.sub("", found[-1]))
    return JobFailed(_first_line(text) or type(error).__name__)


def remade(kind: type[LakebedError], sentence: str) -> LakebedError:
    """An error of that kind that says this: its own way to be made has other arguments."""
    error = kind.__new__(kind)
    Exception.__init__(error, sentence)
    return error


def with_log(error: LakebedError, log: Path) -> LakebedError:
    """The same, and where more is told."""
    return remade(type(error), f"{error} (Spark's log: {log})")


def _kind(module: str, name: str) -> type[LakebedError] | None:
    try:
        kind = getattr(import_module(module), name, None)
    except ImportError:
        return None
    return kind if isinstance(kind, type) and issubclass(kind, LakebedError) else None


def _first_line(text: str) -> str:
    """That says something: Py4J's own first line does not."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if lines and lines[0].startswith("An error occurred while calling") and len(lines) > 1:
        return lines[1].removeprefix(": ")
    return _STATE.sub("", lines[0]) if lines else ""
