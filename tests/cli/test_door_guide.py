"""What the guide of the HTTP API shows runs, and its table has every error."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.main import get_command

from lakebed.api.problems import ADVICE, STATUSES
from lakebed.cli.serve import app
from lakebed.store.store import Store
from tests.s3.endpoint import Endpoint

TEXT = (Path(__file__).parents[2] / "docs" / "guides" / "door.md").read_text(encoding="utf-8")


def blocks(kind: str) -> list[str]:
    return re.findall(rf"^```{kind}\n(.*?)^```", TEXT, flags=re.MULTILINE | re.DOTALL)


def error_rows() -> list[str]:
    """By status: the errors that are told with it, and the advice of each."""
    rows = []
    for status in sorted(set(STATUSES.values())):
        kinds = [kind for kind, its in STATUSES.items() if its == status]
        advice = dict.fromkeys(
            next(ADVICE[one] for one in kind.__mro__ if one in ADVICE) for kind in kinds
        )
        names = ", ".join(f"`{kind.__name__}`" for kind in kinds)
        rows.append(f"| {status} | {names} | {'; or '.join(advice)} |")
    return rows


def test_the_table_of_errors_is_the_one_that_counts() -> None:
    shown = re.findall(r"^\| \d{3} \|.*$", TEXT, flags=re.MULTILINE)
    assert shown == error_rows()


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    folder = tmp_path_factory.mktemp("guide")
    variables = {"LAKEBED_ACCESS_KEY": "ada", "LAKEBED_SECRET_KEY": "her secret"}
    with Endpoint(folder / "data", environment=variables) as endpoint:
        yield {
            **os.environ,
            "PATH": os.pathsep.join([sysconfig.get_path("scripts"), os.environ["PATH"]]),
            "LAKEBED_URL": endpoint.http_url,
            "FOLDER": str(folder),
        }


@pytest.mark.process
@pytest.mark.skipif(shutil.which("curl") is None, reason="no curl here")
def test_every_snippet_runs(environment: dict[str, str]) -> None:
    shell = [line for block in blocks("sh") for line in block.splitlines()]
    served = [line for line in shell if " serve " in line]
    assert len(served) == 1
    for line in shell:
        if line not in served:
            ran = ran_in(
                environment, ["sh", "-ec", line.replace("curl ", "curl --fail-with-body ")]
            )
            assert ran.returncode == 0, (line, ran.stdout, ran.stderr)
    printed = []
    for snippet in blocks("python"):
        ran = ran_in(environment, [sys.executable, "-c", snippet])
        assert (ran.returncode, ran.stderr) == (0, b""), (snippet, ran.stderr)
        printed.append(ran.stdout)
    assert printed[-1] == b"True False True\n"
    folder = Path(environment["FOLDER"])
    assert (folder / "head.bin").stat().st_size == 64
    assert (folder / "openapi.json").read_bytes().startswith(b'{"openapi":"3.1')
    with Store.open(folder / "data", read_only=True) as store:
        assert store.topic("jobs").group("work").lag() == {0: 1}


def ran_in(environment: dict[str, str], command: list[str]) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        command, env=environment, cwd=environment["FOLDER"], capture_output=True, check=False
    )


def test_the_guide_shows_only_options_that_exist() -> None:
    command = get_command(app)
    known = {option for parameter in command.params for option in parameter.opts}
    lines = [line for block in blocks("sh") for line in block.splitlines() if " serve " in line]
    shown = set(re.findall(r"(?<!\w)--[a-z][a-z0-9-]*", " ".join(lines))) - {"--root"}
    assert shown
    assert shown <= known
