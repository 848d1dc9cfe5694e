"""The top level of the command line: its options and groups, and how a command is run."""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.main import get_command

from lakebed.cli.command_groups import GROUPS, lazy_command
from lakebed.cli.invocation import Invocation
from lakebed.cli.output import Output
from lakebed.cli.report import Text, Value
from lakebed.version import VERSION

PROGRAM = "lakebed"
HELP_CHARACTERS_MAX = 100
COMPLETE_VARIABLE = "_LAKEBED_COMPLETE"  # set by the scripts of `lakebed completion`


def run(arguments: Sequence[str]) -> int:
    """Parses the arguments and runs the command. Returns its exit code, or raises its error."""
    logging.basicConfig(format=f"{PROGRAM}: %(message)s")
    command = build()
    instruction = os.environ.get(COMPLETE_VARIABLE)
    if instruction:
        from lakebed.cli.completion import answer

        return answer(command, instruction)
    try:
        with command.make_context(
            PROGRAM, list(arguments), max_content_width=HELP_CHARACTERS_MAX
        ) as context:
            command.invoke(context)
    except typer.Exit as exit_request:
        return exit_request.exit_code
    return 0


def build() -> Any:
    """Returns the top-level command with all groups, without importing the groups."""
    app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)
    app.callback(invoke_without_command=True)(_top)
    command: Any = get_command(app)
    for group in GROUPS:
        command.add_command(lazy_command(group))
    return command


def _top(
    context: typer.Context,
    root: Annotated[
        str | None,
        typer.Option(
            "--root",
            "--url",
            metavar="DIR|URL",
            help="The store: its folder, or the http:// or https:// URL of a node that serves it. "
            "Default: $LAKEBED_ROOT, else ./lakebed-data.",
        ),
    ] = None,
    ca_file: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="A file with the certificates to trust for an https:// URL."
        ),
    ] = None,
    as_json: Annotated[
        bool,
        typer.Option(
            "--json",
            help="Print the result as one JSON document. Commands that print records or messages "
            "print one JSON object per line.",
        ),
    ] = False,
    version: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False,
) -> None:
    """A log-structured store for Python and Spark: logs, topics, consumer groups and objects.

    \b
    Examples:
      Serve the store in ./lakebed-data over S3 and HTTP:
        lakebed serve
      Produce 1,000 messages to a topic of the store in ./data:
        seq 1000 | lakebed --root data topic produce numbers --create
      Describe a topic of a node as JSON:
        lakebed --root http://127.0.0.1:9001 --json topic describe numbers
    """
    output = Output(as_json=as_json)
    if version:
        output.show(Value("version", VERSION), Text(f"{PROGRAM} {VERSION}"))
        raise typer.Exit
    if context.invoked_subcommand is None:
        print(context.get_help(), end="")
        raise typer.Exit(2)
    context.obj = Invocation(output=output, root_option=root, ca_file=ca_file)
