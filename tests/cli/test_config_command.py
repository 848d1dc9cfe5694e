"""`lakebed config`, from the outside: good roots, hostile roots, bad files."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from lakebed.version import VERSION
from tests.cli.conftest import Lakebed

pytestmark = pytest.mark.process


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "root"
    folder.mkdir()
    return folder


def test_show_prints_every_setting_and_its_origin(lakebed: Lakebed, root: Path) -> None:
    (root / "lakebed.toml").write_text('[aof_flush]\nflush_bytes = "1MiB"\n')
    shown = lakebed("--root", root, "config", "show", LAKEBED_AOF_FLUSH_FLUSH_MS="7ms")
    assert (shown.exit_code, shown.err) == (0, "")
    rows = [line.split(maxsplit=2) for line in shown.out.splitlines()]
    assert ["aof_flush.flush_bytes", "1048576", str(root / "lakebed.toml")] in rows
    assert ["aof_flush.flush_ms", "7", "LAKEBED_AOF_FLUSH_FLUSH_MS"] in rows
    assert ["version", VERSION] in rows


def test_show_hides_secrets_wherever_they_come_from(lakebed: Lakebed, root: Path) -> None:
    (root / "lakebed.toml").write_text('[aof_tier2]\nsecret_access_key = "from the file"\n')
    for arguments in (["config", "show"], ["--json", "config", "show"]):
        for variables in ({}, {"LAKEBED_AOF_TIER2_SECRET_ACCESS_KEY": "from the environment"}):
            shown = lakebed("--root", root, *arguments, **variables)
            assert shown.exit_code == 0
            assert "(hidden)" in shown.out
            assert "from the" not in shown.out


def test_show_as_json_is_one_document(lakebed: Lakebed, root: Path) -> None:
    document = lakebed("--root", root, "--json", "config", "show").document()
    assert document["version"] == VERSION
    assert document["root"] == {"path": str(root), "origin": "--root", "exists": True}
    assert document["file"] is None
    assert document["kernels"]["kind"] in ("compiled", "reference")
    assert {"section", "name", "value", "origin"} == set(document["settings"][0])
    assert "version" in document["java"]


def test_show_names_the_reference_kernels(lakebed: Lakebed) -> None:
    shown = lakebed("--json", "config", "show", LAKEBED_KERNELS="reference")
    assert shown.document()["kernels"] == {"kind": "reference", "features": []}


def test_show_works_before_the_root_exists(lakebed: Lakebed) -> None:
    document = lakebed("--json", "config", "show").document()
    assert document["root"] == {"path": "lakebed-data", "origin": "default", "exists": False}


def test_a_java_home_that_does_not_run_is_passed_over(lakebed: Lakebed, tmp_path: Path) -> None:
    java = tmp_path / "jdk" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text("#!/bin/sh\nexit 1\n")
    java.chmod(0o755)
    document = lakebed("--json", "config", "show", JAVA_HOME=str(tmp_path / "jdk")).document()
    assert document["java"].get("origin") != "JAVA_HOME"


def test_the_root_comes_from_the_environment(lakebed: Lakebed, root: Path) -> None:
    document = lakebed("--json", "config", "show", LAKEBED_ROOT=str(root)).document()
    assert document["root"] == {"path": str(root), "origin": "LAKEBED_ROOT", "exists": True}


def test_the_option_wins_over_the_environment(lakebed: Lakebed, root: Path) -> None:
    shown = lakebed("--root", root, "--json", "config", "show", LAKEBED_ROOT="/nowhere")
    assert shown.document()["root"]["path"] == str(root)


def test_an_empty_variable_is_an_unset_one(lakebed: Lakebed) -> None:
    shown = lakebed("--json", "config", "show", LAKEBED_ROOT="")
    assert shown.document()["root"]["path"] == "lakebed-data"


def test_check_without_a_file_says_that_defaults_are_used(lakebed: Lakebed, root: Path) -> None:
    checked = lakebed("--root", root, "config", "check")
    assert (checked.exit_code, checked.err) == (0, "")
    why = "no such file, settings come from the environment and the defaults"
    assert checked.out == f"{root}/lakebed.toml: {why}\n"


def test_check_of_a_good_file_says_ok(lakebed: Lakebed, root: Path) -> None:
    (root / "lakebed.toml").write_text("[aof_flush]\nflush_ms = 1\n")
    assert lakebed("--root", root, "config", "check").out == f"{root}/lakebed.toml: ok\n"
    document = lakebed("--root", root, "--json", "config", "check").document()
    assert document == {"ok": True, "root": str(root), "file": f"{root}/lakebed.toml"}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"[aof_flush\n", "not valid TOML"),
        (b"\n\n=\n", "line 3"),
        (b"\xff", "not valid UTF-8"),
        (b"[aof_flsh]\n", "did you mean aof_flush?"),
        (b"[aof_flush]\nflush_mss = 5\n", "did you mean flush_ms?"),
        (b"[aof_flush]\nflush_ms = -1\n", "flush_ms = -1: expected 0 to "),
        (b"[aof_flush]\nflush_ms = 'soon'\n", "'soon' is not a duration"),
        (b'[aof_flush]\n"\\u001b[2J\\n" = 5\n', "unknown setting"),
        (b"x = " + b"[" * 100_000, "nested too deeply"),
    ],
    ids=lambda value: repr(value)[:25],
)
def test_check_of_a_bad_file_is_one_line(
    lakebed: Lakebed, root: Path, content: bytes, message: str
) -> None:
    (root / "lakebed.toml").write_bytes(content)
    checked = lakebed("--root", root, "config", "check")
    assert message in checked.error_line()
    assert checked.exit_code == 78


def test_check_of_a_folder_or_a_pipe_in_the_files_place_is_one_line(
    lakebed: Lakebed, root: Path
) -> None:
    (root / "lakebed.toml").mkdir()
    assert "is a folder" in lakebed("--root", root, "config", "check").error_line()
    (root / "lakebed.toml").rmdir()
    os.mkfifo(root / "lakebed.toml")
    assert "not a regular file" in lakebed("--root", root, "config", "check").error_line()


def test_a_bad_variable_is_one_line(lakebed: Lakebed, root: Path) -> None:
    checked = lakebed("--root", root, "config", "check", LAKEBED_AOF_FLUSH_FLUSH_MS="\x1b[2J\n")
    assert checked.error_line().startswith("LAKEBED_AOF_FLUSH_FLUSH_MS: flush_ms: ")
    assert checked.exit_code == 78


@pytest.mark.parametrize("command", ["show", "check"])
def test_a_file_as_root_is_one_line(lakebed: Lakebed, tmp_path: Path, command: str) -> None:
    (tmp_path / "file").touch()
    done = lakebed("--root", "file", "config", command)
    assert done.error_line() == "file: is a file; the root must be a folder"
    assert done.exit_code == 64
    below = lakebed("--root", "file/below", "config", command)
    assert "file/below" in below.error_line()


@pytest.mark.parametrize(
    ("root", "exit_code"),
    [
        (b"missing", 66),
        (b"", 64),
        (b"x" * 300, 64),
        (b"x/" * 3000, 64),
        (b"/dev/null", 64),
        (b"new\nline", 66),
        (b"\x1b]0;title\x07\x1b[2J", 66),
        (b"\xff\xfe", 66),
        ("\u202egnp.exe\u2028".encode(), 66),
        (b"-", 66),
        (b"[red]markup[/red]", 66),
    ],
    ids=lambda value: repr(value)[:25],
)
def test_a_hostile_root_is_one_line(lakebed: Lakebed, root: bytes, exit_code: int) -> None:
    done = lakebed("--root", root, "config", "check")
    line = done.error_line()
    assert done.exit_code == exit_code
    assert not set(line) & set("\x1b\n\u2028\u202e")


def test_an_error_as_json_is_one_document(lakebed: Lakebed) -> None:
    done = lakebed("--json", "--root", "new\nline", "config", "check")
    assert done.out == ""
    assert done.err.count("\n") == 1
    assert json.loads(done.err) == {
        "error": {
            "kind": "NotFound",
            "message": "new\nline: no such root (from --root)",
            "exit_code": 66,
        }
    }
    assert done.exit_code == 66
