"""The table of command groups. A group's module is imported when the group is used.

The table has the summaries that `lakebed --help` shows, so that `lakebed --help` imports no group.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any, NamedTuple

from typer.core import TyperCommand
from typer.main import get_command

from lakebed.cli.global_options import accept_global_options
from lakebed.cli.help_page import simplify_help


class Group(NamedTuple):
    """A command group, or a single command such as `serve`: its name, its help, and the module
    whose `app` has its commands."""

    name: str
    module: str
    help: str


GROUPS = (
    Group(
        "aof",
        "lakebed.cli.aof",
        "Append to, read, follow, verify and repair logs, and move segments between tiers.",
    ),
    Group(
        "manifest",
        "lakebed.cli.manifest",
        "Inspect and verify the manifest log of a log.",
    ),
    Group(
        "topic",
        "lakebed.cli.topic",
        "Create topics, produce and consume messages, verify and repair topics.",
    ),
    Group(
        "group",
        "lakebed.cli.group",
        "Inspect consumer groups, reset their positions, and redrive dead letters.",
    ),
    Group(
        "s3",
        "lakebed.cli.s3",
        "Manage buckets, objects and access keys.",
    ),
    Group("config", "lakebed.cli.config", "Show and check the settings of a store."),
    Group(
        "serve", "lakebed.cli.serve", "Serve the store over S3 and HTTP until a signal stops it."
    ),
    Group(
        "spark",
        "lakebed.cli.spark",
        "Run jobs on Spark: land, verify, tier-history, replay, export, import.",
    ),
    Group(
        "verify", "lakebed.cli.verify", "Verify the whole store: logs, topics, groups and objects."
    ),
    Group("damage", "lakebed.cli.damage", "List recorded data losses, and acknowledge them."),
    Group(
        "backup",
        "lakebed.cli.backup",
        "Back up the whole store; list and verify backups.",
    ),
    Group("restore", "lakebed.cli.restore", "Restore a store from a backup."),
    Group(
        "simulate",
        "lakebed.cli.simulate",
        "Run a store on a simulated machine with injected faults, and check its guarantees.",
    ),
    Group("demo", "lakebed.cli.demo", "Run a guided tour of a node in a scratch folder."),
    Group(
        "completion",
        "lakebed.cli.completion",
        "Print a shell completion script.",
    ),
)


def lazy_command(group: Group) -> TyperCommand:
    """Returns a command with the help from the table, which imports the real command when it is
    run."""
    return _LazyCommand(group)


class _LazyCommand(TyperCommand):
    def __init__(self, group: Group) -> None:
        super().__init__(group.name, help=group.help, short_help=group.help)
        self._module = group.module

    # The types are those of the parser inside typer, which has no public name for them.
    def make_context(
        self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any
    ) -> Any:
        command: Any = get_command(import_module(self._module).app)
        accept_global_options(command)
        simplify_help(command)
        return command.make_context(info_name, args, parent=parent, **extra)
