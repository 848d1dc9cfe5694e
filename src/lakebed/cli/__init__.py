"""The command line: `lakebed [--root DIR|URL] [--json] GROUP COMMAND`.

Each command group has a module, listed in `lakebed.cli.command_groups` and imported when the group
is used. The module's `app` is a `typer.Typer`; its commands get the location of the store and the
output from `invocation(context)`.

A command prints a report, as lines or, with `--json`, as one JSON document. With `--json`, commands
that print records or messages write one JSON object for each record or message instead. A command
that fails raises an exception, and `lakebed.cli.failure` turns it into one line and an exit code.
"""
