"""The table of command groups, and a stand-in that imports a group when it is chosen.

The table holds what the top-level help shows, so that neither `lakebed --help` nor one group
pays for the imports of another.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any, NamedTuple

from typer.core import TyperCommand
from typer.main import get_command

from lakebed.cli.global_options import accept_global_options


class Group(NamedTuple):
    """A name on the command line and the module whose `app` serves it."""

    name: str
    module: str
    help: str


GROUPS = (
    Group("aof", "lakebed.cli.aof", "Append to logs, read and follow them, check and repair them."),
    Group(
        "manifest",
        "lakebed.cli.manifest",
        "Look into the manifest log of a log, and verify it.",
    ),
    Group(
        "topic",
        "lakebed.cli.topic",
        "Create topics, produce and consume messages, check and repair them.",
    ),
    Group(
        "group",
        "lakebed.cli.group",
        "Look at the consumer groups of topics, move them, and send dead letters back.",
    ),
    Group(
        "s3",
        "lakebed.cli.s3",
        "Store objects in buckets, list, get, remove and check them.",
    ),
    Group("config", "lakebed.cli.config", "Show and check the settings of a root."),
    Group(
        "serve", "lakebed.cli.serve", "Serve the store over S3 and HTTP, until a signal ends it."
    ),
    Group(
        "spark", "lakebed.cli.spark", "Run jobs on Spark: land, verify, replay, export and more."
    ),
    Group("verify", "lakebed.cli.verify", "Check all of a store: logs, topics and objects."),
    Group("damage", "lakebed.cli.damage", "List what was found to be lost, and acknowledge it."),
    Group("backup", "lakebed.cli.backup", "Back up the whole store, beside whoever writes it."),
    Group("restore", "lakebed.cli.restore", "Make a store from a backup."),
    Group("demo", "lakebed.cli.demo", "A guided run that writes, crashes, recovers and verifies."),
    Group(
        "completion",
        "lakebed.cli.completion",
        "Print a script with which a shell completes commands and options.",
    ),
)


def lazy_command(group: Group) -> TyperCommand:
    """A command that shows the table's help and becomes the real one when it is run."""
    return _LazyCommand(group)


class _LazyCommand(TyperCommand):
    def __init__(self, group: Group) -> None:
        super().__init__(group.name, help=group.help)
        self._module = group.module

    # The types are those of the parser inside typer, which has no public name for them.
    def make_context(
        self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any
    ) -> Any:
        command: Any = get_command(import_module(self._module).app)
        accept_global_options(command)
        return command.make_context(info_name, args, parent=parent, **extra)
