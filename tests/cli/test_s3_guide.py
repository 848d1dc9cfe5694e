"""The page about objects lists every setting, and no other."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

from lakebed.seglake.config import SeglakeConfig

GUIDES = Path(__file__).parents[2] / "docs" / "guides"


def test_the_guide_lists_every_setting_and_no_other() -> None:
    text = (GUIDES / "objects.md").read_text(encoding="utf-8")
    listed = re.findall(r"\| `\[s3\] (\w+)`", text)
    assert listed == [field.name for field in dataclasses.fields(SeglakeConfig)]
