"""The help of every command: it ends with examples, these are understood, and all of it is shown.

A command's examples are the last paragraph of its docstring, marked by a backspace so that its
lines stay lines; each line is one for a shell.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from importlib import import_module
from typing import Any, NamedTuple

import pytest
from typer.main import get_command

from lakebed.cli.command_groups import GROUPS
from lakebed.cli.main import main
from lakebed.cli.program import build

_NOT_OURS = re.compile(r"\s[|>]\s|\)\"$")  # what the shell does with what is printed


class Leaf(NamedTuple):
    """A command that does something, and how it is called."""

    path: tuple[str, ...]
    command: Any

    @property
    def name(self) -> str:
        return " ".join(self.path)

    @property
    def paragraphs(self) -> list[str]:
        return [part for part in re.split(r"\n\s*\n", self.command.help or "") if part.strip()]

    @property
    def examples(self) -> list[str]:
        last = self.paragraphs[-1]
        return last[1:].strip("\n").splitlines() if last.startswith("\b") else []


def leaves(command: Any, path: tuple[str, ...]) -> Iterator[Leaf]:
    inner = getattr(command, "commands", None)
    if not inner:
        yield Leaf(path, command)
        return
    for name, one in inner.items():
        yield from leaves(one, (*path, name))


LEAVES = [
    leaf
    for group in GROUPS
    for leaf in leaves(get_command(import_module(group.module).app), (group.name,))
]
TOP = Leaf((), build())
EVERY = pytest.mark.parametrize("leaf", [TOP, *LEAVES], ids=lambda leaf: leaf.name or "lakebed")


def ours(line: str) -> list[str]:
    """The arguments of `lakebed` in a line of a shell."""
    assert line.count("lakebed ") == 1, line
    return shlex.split(_NOT_OURS.split(line.partition("lakebed ")[2])[0])


def parsed(arguments: list[str]) -> str:
    """The path of the command that they are for, all of it read as if it were run."""
    context: Any = build().make_context("lakebed", list(arguments))
    while hasattr(context.command, "commands"):
        left = [*context._protected_args, *context.args]
        name, command, rest = context.command.resolve_command(context, left)
        context = command.make_context(name, rest, parent=context)
    path: str = context.command_path
    return path.removeprefix("lakebed ")


def test_there_are_commands() -> None:
    assert len(LEAVES) > 50


@EVERY
def test_the_help_ends_with_examples(leaf: Leaf) -> None:
    assert len(leaf.paragraphs) > 1
    assert leaf.examples, "no paragraph that begins with \\b at the end"
    assert not any("\b" in paragraph for paragraph in leaf.paragraphs[:-1])
    assert all(line == line.strip() for line in leaf.examples)


@EVERY
def test_the_examples_are_understood(leaf: Leaf) -> None:
    for line in leaf.examples:
        path = parsed(ours(line))
        assert path == leaf.name or leaf is TOP, line


@EVERY
def test_all_of_the_help_is_shown(
    leaf: Leaf, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    assert main([*leaf.path, "--help"]) == 0
    shown = capsys.readouterr().out
    assert all(line in shown for line in leaf.examples)
    words = " ".join(leaf.paragraphs[:-1]).split()
    assert [word for word in words if word not in shown] == []
    for parameter in leaf.command.params:
        told = (getattr(parameter, "help", None) or "").split()
        assert [word for word in told if word not in shown] == []


def test_the_table_says_what_the_commands_say() -> None:
    """The help of a group that has commands is that of its module."""
    for group in GROUPS:
        command: Any = get_command(import_module(group.module).app)
        if hasattr(command, "commands"):
            assert command.help == group.help, group.name
