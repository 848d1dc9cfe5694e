"""The help of every command: it ends with labelled examples, these are understood, and all of it is
shown, in terminals of any width.

A command's examples are the last paragraph of its docstring, marked by a backspace so that its
lines stay lines: `Examples:`, and by turns a label and a line for a shell.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from importlib import import_module
from itertools import pairwise, takewhile
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
    def example_lines(self) -> list[str]:
        last = self.paragraphs[-1]
        return last[1:].strip("\n").splitlines() if last.startswith("\b") else []

    @property
    def examples(self) -> list[str]:
        """The lines for a shell."""
        return [line.strip() for line in self.example_lines[2::2]]


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
    heading, *lines = leaf.example_lines
    assert heading == "Examples:"
    for label, line in zip(lines[::2], lines[1::2], strict=True):
        assert re.fullmatch(r"  [A-Z].*[^.]:", label), label
        assert re.fullmatch(r"    \S.*", line), line


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


@EVERY
@pytest.mark.parametrize("columns", ["80", "120"])
def test_the_help_has_no_ragged_lines_and_no_types(
    leaf: Leaf, columns: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    assert main([*leaf.path, "--help"]) == 0
    shown = capsys.readouterr().out
    assert re.search(r"<[\w|\[\]]+>", shown) is None
    lines = shown.splitlines()
    assert max(map(len, lines)) <= 120
    for before, line in pairwise(_prose(lines)):
        # A line of a paragraph is not broken before it is full.
        first = line.split()[0] if line else ""
        assert not (before and line) or len(f"{before} {first}") > int(columns) - 24, before


def _prose(lines: list[str]) -> list[str]:
    """The paragraphs between the usage and the examples."""
    start = next(index for index, line in enumerate(lines) if not line) + 1
    return list(takewhile(lambda line: line.strip() != "Examples:", lines[start:]))


def test_the_table_says_what_the_commands_say() -> None:
    """The help of a group that has commands is that of its module."""
    for group in GROUPS:
        command: Any = get_command(import_module(group.module).app)
        if hasattr(command, "commands"):
            assert command.help == group.help, group.name
