"""The guide tells every setting of a node, with its default, and metrics that are there."""

from __future__ import annotations

import re
from pathlib import Path

from lakebed.base.config import field_names
from lakebed.node.config import NodeConfig
from lakebed.store.settings import SECTIONS
from tests.node.test_metrics import SPECIFIED

GUIDE = Path(__file__).parents[2] / "docs" / "guides" / "configuration.md"
_ROW = re.compile(r"^\| `(\w+)` \| (\S+) \|", re.MULTILINE)


def test_every_setting_of_a_node_is_in_the_guide_with_its_default() -> None:
    told = dict(_ROW.findall(GUIDE.read_text(encoding="utf-8")))
    defaults = NodeConfig()
    expected = {}
    for name in field_names(NodeConfig):
        value = getattr(defaults, name)
        text = str(value).lower() if isinstance(value, bool) else str(value)
        expected[name] = f"`{text}`" if text else "none"
    assert {name: told[name] for name in expected if name in told} == expected


def test_every_section_is_in_the_guide() -> None:
    text = GUIDE.read_text(encoding="utf-8")
    assert all(f"`[{name}]`" in text for name in [*SECTIONS, "node"])


def test_metrics_of_the_guide_are_exported() -> None:
    text = GUIDE.read_text(encoding="utf-8")
    named = {name.removesuffix("_total") for name in re.findall(r"`(lakebed_\w+)`", text)}
    others = {"connections", "disk_free_bytes", "disk_reserve_bytes", "build_info"}
    assert named <= {*SPECIFIED, *(f"lakebed_{name}" for name in others)}
