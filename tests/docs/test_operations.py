"""The guide to operations names existing metrics and events."""

from __future__ import annotations

import re

from tests.docs.blocks import text_of, without_blocks
from tests.tidy.repository import modules

GUIDE = text_of("docs/guides/operations.md")
_METRIC = re.compile(r"\b((?:lakebed|aof|aof2|keratin|stroma|seglake|would_block|process)_\w+)\b")
_EVENTS = re.compile(r"## Logs\n(.*?)\n## ", re.DOTALL)


def test_metrics_of_the_guide_are_exported() -> None:
    exported = {*re.findall(r"^\| `(\w+)` \|", text_of("docs/reference/metrics.md"), re.MULTILINE)}
    section = GUIDE[GUIDE.index("## What to alert on") : GUIDE.index("## Logs")]
    named = {*_METRIC.findall(without_blocks(section))}
    assert len(named) > 10
    assert named <= exported


def test_events_of_the_guide_are_logged() -> None:
    section = _EVENTS.search(GUIDE)
    assert section is not None
    listed = section[1].partition("At level `error`")[2]
    named = re.findall(r"`([a-z0-9_]+)`", listed)
    source = "".join(path.read_text(encoding="utf-8") for path in modules())
    assert len(named) > 5
    assert not [name for name in named if f'"{name}"' not in source]
