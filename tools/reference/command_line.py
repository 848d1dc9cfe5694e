"""`command-line.md`: every command and option of `lakebed`, from the commands themselves."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from typing import Any, Final, NamedTuple

from typer.main import get_command

from lakebed.cli.command_groups import GROUPS
from lakebed.cli.help_page import simplify_help
from lakebed.cli.program import PROGRAM, build
from tools.reference.markdown import anchor, code, fenced, plain, table
from tools.reference.markdown import page as page_of

_VERBATIM: Final = "\b"  # marks a paragraph of a help whose lines stay as they are
_COMMAND: Final = " " * 4  # before a command in the examples; their labels are indented less
_HIDDEN: Final = "\f"  # what follows is for readers of the code

_INTRODUCTION = """
The output of `--help` for each command. The root, output and exit codes are explained in
[command line](../guides/command-line.md).
""".strip()


class Command(NamedTuple):
    """`path` begins with the program; `node` is typer's."""

    path: tuple[str, ...]
    node: Any

    @property
    def name(self) -> str:
        return " ".join(self.path)

    @property
    def is_group(self) -> bool:
        return hasattr(self.node, "commands")


def page() -> str:
    found = list(commands())
    blocks = [_INTRODUCTION, _index(found), "## The program", *_described(found[0])]
    for command in found[1:]:
        heading = "##" if len(command.path) == 2 else "###"
        blocks += [f"{heading} {command.name}", *_described(command)]
    return page_of("Commands", *blocks)


def commands() -> Iterator[Command]:
    """The program, and every command below it, groups before what is in them."""
    yield Command((PROGRAM,), build())
    for group in GROUPS:
        command: Any = get_command(import_module(group.module).app)
        simplify_help(command)
        yield from _below((PROGRAM, group.name), command)


def examples(command: Command) -> list[str]:
    """The lines of its help that may be pasted into a shell."""
    return [
        line.strip()
        for text, is_verbatim in _help(command)
        if is_verbatim
        for line in text.split("\n")
        if line.startswith(_COMMAND)
    ]


def _below(path: tuple[str, ...], node: Any) -> Iterator[Command]:
    if node.hidden:
        return
    command = Command(path, node)
    yield command
    for name, one in node.commands.items() if command.is_group else ():
        yield from _below((*path, name), one)


def _index(found: list[Command]) -> str:
    rows = [
        (
            f"[`{one.name}`](#{anchor(one.name)})",
            plain(_help(one)[0][0].partition(". ")[0].removesuffix(".")),
        )
        for one in found[1:]
        if not one.is_group
    ]
    return table(("command", "does"), rows)


def _described(command: Command) -> Iterator[str]:
    context = command.node.context_class(command.node, info_name=command.name)
    yield fenced(" ".join([command.name, *command.node.collect_usage_pieces(context)]))
    for text, is_verbatim in _help(command):
        yield fenced(_script(text), language="sh") if is_verbatim else plain(text)
    shown = [one for one in command.node.params if one.get_help_record(context) is not None]
    for noun, kind in (("argument", "argument"), ("option", "option")):
        rows = [_parameter(one, context) for one in shown if one.param_type_name == kind]
        if rows:
            yield table((noun, "default and limits", "meaning"), rows)


def _script(text: str) -> str:
    """Examples for a shell: their labels as comments, without the heading."""
    return "\n".join(
        line.strip() if line.startswith(_COMMAND) else f"# {line.strip().removesuffix(':')}"
        for line in text.split("\n")[1:]
    )


def _parameter(parameter: Any, context: Any) -> tuple[str, str, str]:
    name, help_text = parameter.get_help_record(context)
    text = parameter.help or ""
    rest = help_text.removeprefix(text).strip().removeprefix("[").removesuffix("]")
    return code(name.strip()), plain(rest), plain(text)


def _help(command: Command) -> list[tuple[str, bool]]:
    """Its paragraphs, and whether the lines of each stay as they are."""
    found = []
    for paragraph in (command.node.help or "").partition(_HIDDEN)[0].strip("\n").split("\n\n"):
        is_verbatim = paragraph.startswith(_VERBATIM)
        text = paragraph.removeprefix(_VERBATIM).strip("\n")
        found.append((text if is_verbatim else " ".join(text.split()), is_verbatim))
    return found
