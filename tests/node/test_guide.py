"""The guide names every section, and metrics that are there."""

from __future__ import annotations

import re
from pathlib import Path

from lakebed.store.settings import SECTIONS
from tests.node.test_metrics import SPECIFIED

GUIDE = Path(__file__).parents[2] / "docs" / "guides" / "configuration.md"


def test_every_section_is_in_the_guide() -> None:
    text = GUIDE.read_text(encoding="utf-8")
    assert all(f"`[{name}]`" in text for name in [*SECTIONS, "node"])


def test_metrics_of_the_guide_are_exported() -> None:
    text = GUIDE.read_text(encoding="utf-8")
    named = {name.removesuffix("_total") for name in re.findall(r"`(lakebed_\w+)`", text)}
    others = {"connections", "disk_free_bytes", "disk_reserve_bytes", "not_writable", "build_info"}
    assert named <= {*SPECIFIED, *(f"lakebed_{name}" for name in others)}
