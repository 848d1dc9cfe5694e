"""The command line: `lakebed [--root DIR|URL] [--json] GROUP COMMAND`.

One module per command group, listed in `lakebed.cli.command_groups` and imported when a command of
it is run. Its `app` is a `typer.Typer`; its commands get the place of the store and the output from
`invocation(context)`.

A command shows a report, as lines or as one JSON document with `--json`. It never prints an error:
it raises, and `lakebed.cli.failure` turns the exception into one line and an exit code.
"""
