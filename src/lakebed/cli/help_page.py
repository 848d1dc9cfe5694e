"""Simplifies the help of commands: no types of Python, and summaries that are not cut off."""

from __future__ import annotations

import inspect
from typing import Any


def simplify_help(command: Any) -> None:
    """Adjusts a command, and all commands below it, after typer has built them."""
    for parameter in command.params:
        if parameter.param_type_name == "argument":
            _simplify_argument(parameter)
    command.short_help = summary(command.help or "")
    for each in getattr(command, "commands", {}).values():
        simplify_help(each)


def summary(text: str) -> str:
    """The first sentence."""
    paragraph = " ".join(inspect.cleandoc(text).partition("\n\n")[0].split())
    return paragraph.partition(". ")[0].removesuffix(".") + "."


def _simplify_argument(argument: Any) -> None:
    """Its metavar is its name everywhere, with brackets if it is optional."""
    argument.display_type_rich = lambda ctx: None  # noqa: ARG005 (typer passes it by name)
    argument.get_usage_pieces = lambda _context: [argument.metavar]
