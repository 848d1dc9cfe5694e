"""The unit for systemd: what it starts is accepted, its times fit, and systemd finds no fault."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from lakebed.base.errors import BadConfig, DataError, InputError, NotFound, RetryError
from lakebed.cli.failure import BUG_EXIT_CODE, INCOMPLETE_EXIT_CODE
from lakebed.cli.main import main
from lakebed.node.config import NodeConfig
from tests.tidy.repository import ROOT

UNIT = ROOT / "examples" / "systemd" / "lakebed.service"
PROGRAM = "/opt/lakebed/bin/lakebed"
EXPOSURE_MAX = 20  # of 100, as `systemd-analyze security` counts; below 50 is called OK


def settings() -> dict[str, str]:
    """Those of [Service]; of a name that is there twice the last one."""
    service = UNIT.read_text(encoding="utf-8").partition("[Service]")[2].partition("[Install]")[0]
    lines = [line for line in service.splitlines() if line and not line.startswith("#")]
    return {name: value for name, _, value in (line.partition("=") for line in lines)}


def test_what_it_starts_is_accepted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    program, *arguments = settings()["ExecStart"].split()
    assert program == PROGRAM
    state = str(tmp_path)
    assert main([*(word.replace("%S", state) for word in arguments), "--dry-run"]) == 0
    folder = arguments[arguments.index("--root") + 1].removeprefix("%S/")
    assert settings()["StateDirectory"] == folder


def test_a_drain_ends_before_it_is_killed() -> None:
    assert NodeConfig().drain_s + 10 <= float(settings()["TimeoutStopSec"])
    assert settings()["KillSignal"] == "SIGTERM"
    assert settings()["ExecReload"] == "/bin/kill -HUP $MAINPID"


def test_it_is_started_again_where_that_can_help() -> None:
    useless = {int(code) for code in settings()["RestartPreventExitStatus"].split()}
    for kind in (BadConfig, InputError, NotFound, DataError):
        assert kind.exit_code in useless
    assert {2, INCOMPLETE_EXIT_CODE} <= useless
    assert useless.isdisjoint({RetryError.exit_code, BUG_EXIT_CODE})


def test_it_may_do_nothing_that_it_need_not() -> None:
    found = settings()
    for name in ("DynamicUser", "NoNewPrivileges", "ProtectHome", "PrivateTmp", "PrivateDevices"):
        assert found[name] == "yes", name
    assert found["ProtectSystem"] == "strict"
    assert found["CapabilityBoundingSet"] == ""


@pytest.mark.process
@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="no systemd-analyze here")
def test_systemd_finds_no_fault(tmp_path: Path) -> None:
    program = Path(sys.executable).with_name("lakebed")
    text = UNIT.read_text(encoding="utf-8").replace(PROGRAM, str(program))
    unit = tmp_path / UNIT.name
    unit.write_text(text, encoding="utf-8")
    verified = analyzed("verify", str(unit))
    assert verified.returncode == 0, verified.stderr
    assert UNIT.name not in verified.stderr, verified.stderr  # nor a warning
    exposed = analyzed("security", "--offline=true", f"--threshold={EXPOSURE_MAX}", str(unit))
    assert exposed.returncode == 0, exposed.stdout


def analyzed(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["systemd-analyze", "--no-pager", *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
