"""`lakebed manifest` while another process writes, and after that process has ended."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Finished, Lakebed
from tests.cli.manifest_stores import folder_of, write_segments
from tests.cli.processes import run_and_list_modules

Environment = dict[str, str]
pytestmark = pytest.mark.process

WRITER = """
import sys
from pathlib import Path
from lakebed.host.store import Store
from tests.cli.manifest_stores import CONFIG, journal_of, write_segment

with Store.open(Path("root"), config=CONFIG) as store:
    log = store.log("orders")
    for _ in range(3):
        write_segment(log)
    journal_of(log).commit()
    print("ready", flush=True)
    sys.stdin.read()
"""


def alias(tmp_path: Path, environment: Environment, *arguments: str) -> Finished:
    done = subprocess.run(
        [sys.executable, "-m", "lakebed.cli.manifest_inspect", *arguments],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    return Finished(done.returncode, done.stdout, done.stderr)


def test_the_alias_is_a_program_of_its_own(
    lakebed: Lakebed, tmp_path: Path, environment: Environment
) -> None:
    write_segments(tmp_path / "root", 1)
    stream = folder_of(tmp_path / "root").name
    wanted = lakebed("--root", "root", "--json", "manifest", "inspect", "orders")
    assert wanted.document()["stream_id"] == stream
    for name in ("orders", stream):
        assert alias(tmp_path, environment, name, "--root", "root", "--json") == wanted
    missing = alias(tmp_path, environment, "nope", "--root", "root")
    assert (missing.exit_code, missing.error_line()) == (66, "root: there is no log nope")


def test_a_live_writer_and_a_killed_one_leave_a_manifest_log_that_is_whole(
    lakebed: Lakebed, tmp_path: Path, environment: Environment
) -> None:
    paths = [str(Path(__file__).parents[2]), environment.get("PYTHONPATH", "")]
    writer = subprocess.Popen(
        [sys.executable, "-c", WRITER],
        cwd=tmp_path,
        env=environment | {"PYTHONPATH": ":".join(filter(None, paths))},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    try:
        assert writer.stdout is not None
        assert writer.stdout.readline() == b"ready\n"
        beside = _looked(lakebed)
    finally:
        writer.kill()
        writer.communicate()
    assert _looked(lakebed) == beside
    assert [state["segment_id"] for state in beside["segments"]] == [0, 1, 2]


def _looked(lakebed: Lakebed) -> Any:
    for command in (["inspect", "orders"], ["verify", "orders"], ["history", "orders", "2"]):
        done = lakebed("--root", "root", "manifest", *command)
        assert (done.exit_code, done.err) == (0, ""), command
    done = lakebed("--root", "root", "--json", "manifest", "state", "orders")
    return done.document()


def test_the_help_of_the_group_imports_no_engine(tmp_path: Path, environment: Environment) -> None:
    modules, out = run_and_list_modules(tmp_path, environment, ["manifest", "inspect", "--help"])
    assert "lakebed.cli.manifest" in modules
    assert "lakebed manifest inspect orders" in out
    engines = ("lakebed.aof", "lakebed.kernels", "lakebed.store")
    assert not [name for name in modules if name.startswith(engines)]
