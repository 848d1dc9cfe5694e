"""The page about topics lists every setting, and no other."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

from lakebed.keratin.config import TopicConfig
from lakebed.stroma.config import GroupConfig

GUIDES = Path(__file__).parents[2] / "docs" / "guides"


def test_the_guide_lists_every_setting_and_no_other() -> None:
    text = (GUIDES / "topics.md").read_text(encoding="utf-8")
    listed = re.findall(r"\| `\[(\w+)\] (\w+)`", text)
    sections = (("keratin", TopicConfig), ("stroma", GroupConfig))
    assert listed == [
        (section, field.name)
        for section, config in sections
        for field in dataclasses.fields(config)
    ]
