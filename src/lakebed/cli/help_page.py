"""Simplifies the help of commands: hides Python types, and does not cut off summaries."""

from __future__ import annotations

import inspect
from typing import Any


def simplify_help(command: Any) -> None:
    """Changes the help of a command and its subcommands, after typer has built them."""
    for parameter in command.params:
        if parameter.param_type_name == "argument":
            _simplify_argument(parameter)
    command.short_help = summary(command.help or "")
    for each in getattr(command, "commands", {}).values():
        simplify_help(each)


def summary(text: str) -> str:
    """Returns the first sentence of a help text."""
    paragraph = " ".join(inspect.cleandoc(text).partition("\n\n")[0].split())
    return paragraph.partition(". ")[0].removesuffix(".") + "."


def _simplify_argument(argument: Any) -> None:
    """Shows the argument everywhere by its metavar alone."""
    argument.display_type_rich = lambda ctx: None  # noqa: ARG005 (typer passes it by name)
    argument.get_usage_pieces = lambda _context: [argument.metavar]
