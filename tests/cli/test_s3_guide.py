"""The pages about objects list every command and every setting, and what they show runs."""

from __future__ import annotations

import dataclasses
import re
import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from lakebed.cli.s3 import app
from lakebed.seglake.config import SeglakeConfig
from tests.cli.in_process import runner

GUIDES = Path(__file__).parents[2] / "docs" / "guides"


def commands() -> dict[str, Any]:
    """By name, those of the groups in it too."""
    group: Any = get_command(app)
    found: dict[str, Any] = {}
    for name, command in group.commands.items():
        inner = getattr(command, "commands", {})
        found |= {f"{name} {one}": inner[one] for one in inner} or {name: command}
    return found


def test_the_guide_lists_every_command_and_only_options_that_exist() -> None:
    text = (GUIDES / "command-line.md").read_text(encoding="utf-8")
    pattern = r"^\| `lakebed s3 ((?:buckets |keys )?[\w-]+)([^`]*)` \|"
    rows = dict(re.findall(pattern, text, flags=re.MULTILINE))
    assert set(rows) == set(commands())
    for name, command in commands().items():
        known = {option for parameter in command.params for option in parameter.opts}
        shown = set(re.findall(r"(?<!\w)--[a-z][a-z0-9-]*", rows[name]))
        assert shown == {option for option in known if option.startswith("--")}, name


def test_the_guide_lists_every_setting_and_no_other() -> None:
    text = (GUIDES / "objects.md").read_text(encoding="utf-8")
    listed = re.findall(r"\| `\[s3\] (\w+)`", text)
    assert listed == [field.name for field in dataclasses.fields(SeglakeConfig)]


def test_every_command_of_the_guide_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    monkeypatch.chdir(tmp_path)
    run = runner(tmp_path / "lakebed-data", monkeypatch, capsysbinary)
    text = (GUIDES / "objects.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```sh\n(.*?)^```", text, flags=re.MULTILINE | re.DOTALL)
    ran = set()
    for line in "".join(blocks).splitlines():
        before, has_command, command = line.partition("lakebed ")
        shell = before.removesuffix("| ")
        stdin = subprocess.run(["sh", "-c", shell], capture_output=True, check=True).stdout
        if has_command:
            words = shlex.split(command)
            as_json = words[0] == "--json"
            done = run(*words[as_json:], stdin=stdin, as_json=as_json)
            assert (done.exit_code, done.err) == (0, b""), line
            ran |= {words[as_json + 1]}
    assert ran == {"buckets", "ls", "put", "get", "rm", "stat", "verify"}
    assert (tmp_path / "copy.txt").read_text() == "hello\n"
