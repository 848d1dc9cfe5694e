"""The whole demo in a process of its own: all of it, without a Spark, and interrupted."""

from __future__ import annotations

import json
import os
import shlex
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.process

LAKEBED = (sys.executable, "-m", "lakebed.cli")
EVENTS = ("--events", "6000")


def environment(folder: Path, **variables: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("LAKEBED_")}
    return kept | {"TMPDIR": str(folder), "PATH": os.environ["PATH"]} | variables


def run(
    folder: Path, *arguments: str, timeout_s: float = 800, **variables: str
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*LAKEBED, *arguments],
        cwd=folder,
        env=environment(folder, **variables),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=timeout_s,
    )


def without_spark(folder: Path) -> str:
    """A place to look for modules first, where pyspark cannot be imported."""
    (folder / "modules").mkdir()
    (folder / "modules" / "pyspark.py").write_text("raise ImportError('not here')\n")
    return str(folder / "modules")


def checks_of(document: Any) -> dict[str, tuple[int, int]]:
    assert all(check["agrees"] for check in document["checks"]), document["checks"]
    return {check["what"]: (check["expected"], check["found"]) for check in document["checks"]}


@pytest.mark.spark
@pytest.mark.timeout(900)
def test_the_whole_demo_agrees_with_itself_and_its_next_steps_work(tmp_path: Path) -> None:
    (tmp_path / "temporary").mkdir()
    done = run(
        tmp_path, "--json", "demo", *EVENTS, "--scratch", "kept",
        TMPDIR=str(tmp_path / "temporary"),
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, ""), "Spark's own words are in its log"
    document = json.loads(done.stdout)
    checks = checks_of(document)
    assert document["ok"] is True
    assert document["left_out"] == []
    assert checks["rows landed"] == (6000, 6000)
    acknowledged, _ = checks["acknowledged events found, by id"]
    assert acknowledged >= 6000 + 2 * 600
    assert checks["ids in the table"] == (acknowledged, acknowledged)
    assert checks["log records read back from Tier 2"] == (3000, 3000)
    assert set(document["rates_per_second"]) >= {"events produced", "rows landed"}
    assert [held["step"] for held in document["tiers"]][0::3] == ["sealed", "evicted --warm"]
    assert document["tiers"][-1]["tier0_bytes"] == document["tiers"][-1]["tier1_bytes"] == 0
    assert Path(document["plot"]).read_bytes().startswith(b"\x89PNG")
    assert document["folder"] == str(tmp_path / "kept")
    *steps, serve = document["next"]
    assert serve.endswith(" serve")
    for step in steps:
        words = shlex.split(step)
        arguments = words[words.index("--root") :]
        if "spark" not in arguments:  # once more a Java: the job has tests of its own
            told = run(tmp_path, *arguments)
            assert (told.returncode, told.stderr) == (0, ""), step


def test_without_spark_the_rest_is_shown_and_nothing_stays_but_the_plot(tmp_path: Path) -> None:
    modules = without_spark(tmp_path)
    folder = tmp_path / "temporary"
    folder.mkdir()
    done = run(tmp_path, "demo", *EVENTS, TMPDIR=str(folder), PYTHONPATH=modules)
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    stations = [line.split()[0] for line in lines[: lines.index("")]]
    assert stations == [
        "node", "produced", "consumed", "tiers", "spark", "killed", "found", "verified", "power",
    ]  # fmt: skip
    assert "skipped: spark: pyspark is not installed: install lakebed[spark]" in lines
    assert "counts agree" in lines[-1]
    assert [path.suffix for path in folder.iterdir()] == [".png"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_demo_that_is_interrupted_takes_its_node_and_its_folder_along(
    tmp_path: Path, number: signal.Signals
) -> None:
    folder = tmp_path / "temporary"
    folder.mkdir()
    process = subprocess.Popen(
        [*LAKEBED, "demo"],
        cwd=tmp_path,
        env=environment(folder),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with process:
        assert process.stdout is not None
        line = process.stdout.readline()  # the node is there
        process.send_signal(number)
        _, errors = process.communicate(timeout=60)
    assert (process.returncode, errors) == (130, "lakebed: interrupted\n")
    assert list(folder.iterdir()) == []
    port = int(line.partition("http://127.0.0.1:")[2].partition(",")[0])
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port))
