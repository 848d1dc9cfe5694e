"""`docs/guarantees.md`: each sentence names its checker, and each checker has its sentence."""

from __future__ import annotations

import re
from pathlib import Path

from lakebed.simulator import violation
from lakebed.simulator.violation import Promise

REPOSITORY = Path(__file__).resolve().parents[2]
PAGE = REPOSITORY / "docs" / "guarantees.md"
SIMULATOR = Path(violation.__file__).parent


def sentences() -> dict[str, str]:
    """By the name of the checker at the end of each."""
    found = re.findall(r"^- (.+) `([a-z-]+)`$", PAGE.read_text(), re.MULTILINE)
    assert len(found) == len({name for _, name in found}), "a checker stands there twice"
    return {name: text for text, name in found}


def test_each_sentence_has_a_checker_and_each_checker_a_sentence() -> None:
    assert set(sentences()) == {promise.value for promise in Promise}


def test_each_promise_is_checked_somewhere() -> None:
    code = "".join(path.read_text() for path in SIMULATOR.rglob("*.py"))
    unchecked = [promise.name for promise in Promise if f"Promise.{promise.name}" not in code]
    assert unchecked == []
