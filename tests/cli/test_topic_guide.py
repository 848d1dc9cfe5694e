"""The pages about topics list every command, every setting, and only options that exist."""

from __future__ import annotations

import dataclasses
import re
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from lakebed.keratin.config import TopicConfig
from lakebed.stroma.config import GroupConfig

GUIDES = Path(__file__).parents[2] / "docs" / "guides"


@pytest.mark.parametrize("group", ["topic", "group"])
def test_the_guide_lists_every_command_and_only_options_that_exist(group: str) -> None:
    text = (GUIDES / "command-line.md").read_text(encoding="utf-8")
    rows = re.findall(rf"^\| `lakebed {group} ([\w-]+)([^`]*)` \|", text, flags=re.MULTILINE)
    commands: Any = get_command(import_module(f"lakebed.cli.{group}").app)
    assert {name for name, _ in rows} == set(commands.commands)
    for name in commands.commands:
        parameters = commands.commands[name].params
        known = {option for parameter in parameters for option in parameter.opts}
        shown = set()
        for listed, row in rows:
            if listed == name:
                shown |= set(re.findall(r"(?<!\w)--?[a-z][a-z0-9-]*", row))
        assert shown <= known
        # And each of them is shown, in one of its forms.
        missing = [
            one.opts for one in parameters if "--" in one.opts[0] and not shown & {*one.opts}
        ]
        assert not missing, name


def test_the_guide_lists_every_setting_and_no_other() -> None:
    text = (GUIDES / "topics.md").read_text(encoding="utf-8")
    listed = re.findall(r"\| `\[(\w+)\] (\w+)`", text)
    sections = (("keratin", TopicConfig), ("stroma", GroupConfig))
    assert listed == [
        (section, field.name)
        for section, config in sections
        for field in dataclasses.fields(config)
    ]
