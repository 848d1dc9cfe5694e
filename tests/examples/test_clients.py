"""Every client of `examples/clients` runs against a node, as its users run it, and runs again."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.clients.environments import installed
from tests.clients.nodes import s3_client
from tests.s3.endpoint import Endpoint
from tests.tidy.repository import ROOT

pytestmark = [pytest.mark.process]

CLIENTS = ROOT / "examples" / "clients"
BIN = Path(sys.executable).parent

# What each says in the end, and what it leaves in the bucket.
EXPECTED = {
    "aws.sh": ("figs and dates\n", {"aws/fruit.txt"}),
    "rclone.sh": ("figs and dates\n", {"rclone/fruit.txt"}),
    "curl.sh": ("figs and dates\n", {"curl/fruit.txt"}),
    "with_boto3.py": ("boto3/once 5\n", {"boto3/fruit.txt", "boto3/once"}),
    "with_s3fs.py": ("['examples/s3fs/fruit.txt']\n", {"s3fs/fruit.txt"}),
    "with_pyarrow.py": ('fruit: [["figs","dates"]]\n', {"pyarrow/fruit.parquet"}),
    "with_obstore.py": ("100 objects\nfigs\n", {"obstore/000.txt", "obstore/099.txt"}),
    "with_lakebed.py": ("ate two figs\nfigs and dates\n", {"lakebed/fruit.txt"}),
    "with_spark.py": ("", {"numbers/_delta_log/00000000000000000000.json"}),
}
LIMIT_S = 600  # Spark, on a machine that has much else to do
MAKE_NO_BUCKET = ("with_obstore.py", "with_spark.py")


@pytest.fixture(scope="module")
def endpoint(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Endpoint]:
    with Endpoint(tmp_path_factory.mktemp("examples") / "root") as started:
        yield started


def said(name: str, endpoint: Endpoint, home: Path) -> str:
    python = installed("s3fs", "bin/python") if "s3fs" in name else Path(sys.executable)
    command = [str(CLIENTS / name)] if name.endswith(".sh") else [str(python), str(CLIENTS / name)]
    done = subprocess.run(
        command,
        env={
            "PATH": f"{BIN}:{os.environ['PATH']}",
            "HOME": str(home),
            "LC_ALL": "C.UTF-8",
            "AWS_ENDPOINT_URL": endpoint.url,
            "AWS_DEFAULT_REGION": endpoint.region,
            "AWS_ACCESS_KEY_ID": endpoint.access_key,
            "AWS_SECRET_ACCESS_KEY": endpoint.secret_key,
            "LAKEBED_URL": endpoint.http_url,
        },
        cwd=home,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    told: str = done.stdout
    return told


def try_it(name: str, endpoint: Endpoint, home: Path, *, times: int = 2) -> str:
    """What it says the last time."""
    client = s3_client(endpoint)
    if name in MAKE_NO_BUCKET:
        client.create_bucket(Bucket="examples")
    told = [said(name, endpoint, home) for _ in range(times)][-1]
    listed = client.list_objects_v2(Bucket="examples")["Contents"]
    client.close()
    ends_with, keys = EXPECTED[name]
    assert told.endswith(ends_with), told
    assert keys <= {one["Key"] for one in listed}
    return told


@pytest.mark.parametrize("name", [name for name in EXPECTED if name != "with_spark.py"])
def test_a_client_works_with_a_node(name: str, endpoint: Endpoint, tmp_path: Path) -> None:
    try_it(name, endpoint, tmp_path)


@pytest.mark.spark
@pytest.mark.timeout(900)
def test_spark_works_with_a_node(endpoint: Endpoint, tmp_path: Path) -> None:
    told = try_it("with_spark.py", endpoint, tmp_path, times=1)
    assert re.search(r"\|1000\| +999\|", told), told


def test_every_client_is_tried_and_every_example_is_listed() -> None:
    assert {path.name for path in CLIENTS.iterdir() if path.is_file()} == set(EXPECTED)
    page = (ROOT / "examples" / "README.md").read_text(encoding="utf-8")
    listed = set(re.findall(r"^\| \[([^\]]+)\]", page, re.MULTILINE))
    files = {path for path in (ROOT / "examples").rglob("*") if path.is_file()}
    names = {path.relative_to(ROOT / "examples").as_posix() for path in files}
    wanted = {name for name in names if "__pycache__" not in name} - {"README.md"}
    assert listed == wanted | {"../Dockerfile"}
