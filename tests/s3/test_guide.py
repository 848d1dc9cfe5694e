"""What the guide of the S3 endpoint shows runs against an endpoint."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.main import get_command

from lakebed.cli.serve import app
from tests.s3.endpoint import Endpoint

pytestmark = pytest.mark.process

TEXT = (Path(__file__).parents[2] / "docs" / "guides" / "s3.md").read_text(encoding="utf-8")


def blocks(kind: str) -> list[str]:
    return re.findall(rf"^```{kind}\n(.*?)^```", TEXT, flags=re.MULTILINE | re.DOTALL)


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    folder = tmp_path_factory.mktemp("guide")
    (folder / "city.jpg").write_bytes(b"a picture")
    with Endpoint(folder / "root") as endpoint:
        yield {
            **os.environ,
            "PATH": os.pathsep.join([sysconfig.get_path("scripts"), os.environ["PATH"]]),
            "AWS_ENDPOINT_URL": endpoint.url,
            "AWS_ACCESS_KEY_ID": endpoint.access_key,
            "AWS_SECRET_ACCESS_KEY": endpoint.secret_key,
            "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_CONFIG_FILE": os.devnull,
            "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
            "FOLDER": str(folder),
        }


def test_every_snippet_runs(environment: dict[str, str]) -> None:
    commands = [line for block in blocks("sh") for line in block.splitlines()]
    of_aws = [line for line in commands if line.startswith("aws ")]
    assert len(of_aws) == 3
    for line in of_aws:
        subprocess.run(
            ["sh", "-ec", line],
            env=environment,
            cwd=environment["FOLDER"],
            check=True,
            capture_output=True,
        )
    snippets = blocks("python")
    assert len(snippets) == 3
    for snippet in snippets:
        subprocess.run(
            [sys.executable, "-W", "ignore", "-c", snippet],
            env=environment,
            check=True,
            capture_output=True,
        )


def test_the_guide_shows_only_options_that_exist() -> None:
    command = get_command(app)
    known = {option for parameter in command.params for option in parameter.opts}
    lines = [line for block in blocks("sh") for line in block.splitlines() if " serve" in line]
    shown = set(re.findall(r"(?<!\w)--[a-z][a-z0-9-]*", " ".join(lines))) - {"--root"}
    assert shown
    assert shown <= known
