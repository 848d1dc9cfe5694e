"""The command line: `lakebed [--root DIR] [--json] GROUP COMMAND`.

One file per command group, named in the table of `lakebed.cli.groups` and imported only when it
is chosen. A group's module has `app`, a `typer.Typer(add_completion=False)`; its commands take the
`typer.Context`, from which `invocation` gives the root and the output.

A command prints lines, or one JSON document with `--json`. It never prints an error: it raises,
and `lakebed.cli.failure` turns whatever was raised into one line and an exit code.
"""
