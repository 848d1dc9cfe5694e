"""What the first start of a node prints is pasted into a shell, and works."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from lakebed.node.connection_hints import BUCKET, environment_of, snippets
from lakebed.seglake.key_ring import Credentials

pytestmark = pytest.mark.process

COMMAND = [sys.executable, "-m", "lakebed.cli"]
BIN = Path(sys.executable).parent
CLIENTS = ("aws", "boto3", "rclone", "spark", "curl")
_HEADING = re.compile(r"^# (\w+)$", re.MULTILINE)


class Printed:
    """What was printed, cut into its parts."""

    def __init__(self, text: str) -> None:
        self.text = text
        before, *rest = _HEADING.split(text)
        self.exports = before[before.index("export ") :]
        self.snippets = dict(zip(rest[::2], rest[1::2], strict=True))

    def paste(self, client: str, home: Path) -> str:
        """Into a shell that knows the programs and nothing else; what it says."""
        done = subprocess.run(
            ["bash", "-e", "-o", "pipefail"],
            input=self.exports + self.snippets[client],
            env={"PATH": f"{BIN}:{os.environ['PATH']}", "HOME": str(home), "LC_ALL": "C.UTF-8"},
            capture_output=True,
            text=True,
            check=False,
            cwd=home,
            timeout=240,
        )
        assert done.returncode == 0, done.stderr
        said: str = done.stdout
        return said


@pytest.fixture(scope="module")
def printed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Printed]:
    """By a node that runs as long as its snippets are tried."""
    root = tmp_path_factory.mktemp("first") / "root"
    command = [*COMMAND, "--root", str(root), "serve", "--s3-port", "0", "--http-port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={}) as process:
        assert process.stdout is not None
        lines = [process.stdout.readline()]
        while lines[-1] and not lines[-1].startswith("curl "):
            lines.append(process.stdout.readline())
        try:
            yield Printed("".join(lines))
        finally:
            process.send_signal(signal.SIGTERM)
            assert process.wait(60) == 0


def test_both_places_the_key_and_all_clients_are_told(printed: Printed) -> None:
    first, second, *_ = printed.text.splitlines()
    assert re.fullmatch(r"S3 on http://127\.0\.0\.1:\d+, region us-east-1", first)
    assert re.fullmatch(r"HTTP API on http://127\.0\.0\.1:\d+", second)
    assert tuple(printed.snippets) == CLIENTS
    assert printed.exports.count("export ") == 4


@pytest.mark.parametrize(
    ("client", "said"),
    [
        ("aws", "aws.txt"),
        ("boto3", "hello from boto3"),
        ("rclone", "rclone.txt"),
        ("curl", '"buckets"'),
    ],
)
def test_what_is_printed_can_be_pasted(
    printed: Printed, client: str, said: str, tmp_path: Path
) -> None:
    assert said in printed.paste(client, tmp_path)
    if client != "curl":
        assert said in printed.paste(client, tmp_path)  # the bucket is there by now


def test_the_snippet_of_spark_is_a_program(printed: Printed) -> None:
    text = printed.snippets["spark"].strip()
    first, *program, last = text.splitlines()
    assert (first, last) == ("python3 - <<'END'", "END")
    compile("\n".join(program), "spark", "exec")


@pytest.mark.spark
def test_the_snippet_of_spark_writes_and_reads_a_table(printed: Printed, tmp_path: Path) -> None:
    assert printed.paste("spark", tmp_path).split()[-1] == "1000"


def test_who_listens_everywhere_is_asked_here() -> None:
    key = Credentials("LAKE", "it's secret")
    assert environment_of("http://0.0.0.0:9000", "r", key)["AWS_ENDPOINT_URL"] == (
        "http://127.0.0.1:9000"
    )
    assert environment_of("https://[::]:1", "r", key)["AWS_ENDPOINT_URL"] == "https://[::1]:1"
    assert environment_of("http://[fd00::2]:1", "r", key)["AWS_ENDPOINT_URL"] == (
        "http://[fd00::2]:1"
    )
    assert "curl" not in snippets(None)
    assert BUCKET in snippets(None)["aws"]
