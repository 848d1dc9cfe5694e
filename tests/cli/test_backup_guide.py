"""The pages about backups and upgrades show options that there are, and versions that are true."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path
from typing import Any

from typer.main import get_command

from lakebed.seglake.format import MANIFEST_VERSION
from lakebed.seglake.meta.schema import MIGRATIONS
from lakebed.store.format_survey import KINDS

DOCS = Path(__file__).parents[2] / "docs"
GUIDE = (DOCS / "guides" / "backup.md").read_text(encoding="utf-8")
UPGRADE = (DOCS / "guides" / "upgrade.md").read_text(encoding="utf-8")


def test_the_guide_shows_every_option_but_those_of_s3_and_no_other() -> None:
    commands: list[Any] = [
        get_command(import_module(f"lakebed.cli.{name}").app) for name in ("backup", "restore")
    ]
    known = {option for one in commands for parameter in one.params for option in parameter.opts}
    known = {option for option in known if option.startswith("--")}
    shown = set(re.findall(r"(?<![\w-])--[a-z][a-z-]*", GUIDE)) - {"--root"}
    assert shown <= known
    assert known - shown <= {"--allow-http"}


def test_the_table_of_versions_is_true() -> None:
    rows = re.findall(r"^\| (.+?) \| (\d|schema \d) \| (.+?) \|", UPGRADE, re.MULTILINE)
    written = {what: number for what, number, _ in rows}
    assert written["`meta.db`"] == f"schema {len(MIGRATIONS)}"
    assert written["manifests of objects"] == str(MANIFEST_VERSION)
    for pattern, kinds in KINDS.items():
        name = pattern.rpartition("/")[2].replace("*.*idx", ".idx").lstrip("*")
        rows_of = [number for what, number, _ in rows if _is_about(pattern, name, what)]
        assert rows_of, pattern
        assert str(kinds[0].version) in rows_of, pattern


def _is_about(pattern: str, name: str, what: str) -> bool:
    top = pattern.partition("/")[0]
    is_same = name in what or pattern in what
    return is_same and (top in what or "/" not in pattern or (top == "topics" and "topics" in what))
