"""`--root` and `--json` on every command: they mean the same wherever they stand.

The top level documents them; in the help of a command they are not repeated.
"""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Annotated, Any

import typer
from typer.main import get_command

from lakebed.cli.invocation import invocation, resolve_root
from lakebed.cli.output import Output


def accept_global_options(command: Any) -> None:
    """Have a command, and all commands below it, take them too."""
    command.params += get_command(_APP).params
    for each in getattr(command, "commands", {}).values():
        accept_global_options(each)


def _set_root(context: typer.Context, value: str | None) -> None:
    if value is not None and not context.resilient_parsing:
        place = resolve_root(value, environment=os.environ)
        context.obj = replace(invocation(context), root=place.path, root_origin=place.origin)


def _set_json(context: typer.Context, value: bool) -> None:
    if value and not context.resilient_parsing:
        context.obj = replace(invocation(context), output=Output(as_json=True))


def _options(
    root: Annotated[
        str | None,
        typer.Option(metavar="DIR", hidden=True, expose_value=False, callback=_set_root),
    ] = None,
    as_json: Annotated[
        bool,
        typer.Option("--json", hidden=True, expose_value=False, callback=_set_json),
    ] = False,
) -> None:
    """Never called: it only declares the options."""


_APP = typer.Typer(add_completion=False)
_APP.command()(_options)
