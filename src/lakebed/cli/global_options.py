"""Accepts `--root`, `--ca-file` and `--json` on every command, before or after its name.

The help of a command does not show them; only `lakebed --help` does.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.main import get_command

from lakebed.cli.invocation import invocation
from lakebed.cli.output import Output


def accept_global_options(command: Any) -> None:
    """Adds the global options to a command and its subcommands, except options that the command
    already has."""
    own = {flag for parameter in command.params for flag in parameter.opts}
    command.params += [
        parameter for parameter in get_command(_APP).params if own.isdisjoint(parameter.opts)
    ]
    for each in getattr(command, "commands", {}).values():
        accept_global_options(each)


def _set_root(context: typer.Context, value: str | None) -> None:
    if value is not None and not context.resilient_parsing:
        context.obj = replace(invocation(context), root_option=value)


def _set_ca_file(context: typer.Context, value: Path | None) -> None:
    if value is not None and not context.resilient_parsing:
        context.obj = replace(invocation(context), ca_file=value)


def _set_json(context: typer.Context, value: bool) -> None:
    if value and not context.resilient_parsing:
        context.obj = replace(invocation(context), output=Output(as_json=True))


def _options(
    root: Annotated[
        str | None,
        typer.Option("--root", "--url", hidden=True, expose_value=False, callback=_set_root),
    ] = None,
    ca_file: Annotated[
        Path | None, typer.Option(hidden=True, expose_value=False, callback=_set_ca_file)
    ] = None,
    as_json: Annotated[
        bool,
        typer.Option("--json", hidden=True, expose_value=False, callback=_set_json),
    ] = False,
) -> None:
    """Declares the global options. This function is never called."""


_APP = typer.Typer(add_completion=False, rich_markup_mode=None)
_APP.command()(_options)
