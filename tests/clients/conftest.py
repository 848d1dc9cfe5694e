"""A node of each kind of versioning in another process, and a bucket of it for every test.

A node is shared by all tests of a process that want its kind. The tests of one client and one
kind stay in one process, so that what they start stands once.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

import pytest

from lakebed.base.units import KIB
from tests.clients.nodes import Many, Nodes, S3Client, s3_client
from tests.s3.endpoint import Endpoint

VERSIONINGS = ("enabled", "unversioned")
HERE = Path(__file__).parent
PART_BYTES_MIN = 64 * KIB  # for the clients that take parts smaller than 5 MiB
_NUMBERS = count(1)


@pytest.hookimpl(tryfirst=True)  # before they are chosen by their marks
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.process)


@pytest.fixture(autouse=True)
def _no_settings_of_the_user(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Clients know what a test tells them, and nothing else."""
    for name in os.environ:
        if name.startswith(("AWS_", "RCLONE_", "S3_")) or name.lower().endswith("_proxy"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")  # nobody is asked for credentials


@pytest.fixture(scope="session")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nodes]:
    with Nodes(tmp_path_factory.mktemp("nodes")) as started:
        yield started


@pytest.fixture(scope="module", params=VERSIONINGS)
def endpoint(request: pytest.FixtureRequest, nodes: Nodes) -> Endpoint:
    return nodes.of_versioning(request.param, part_bytes_min=PART_BYTES_MIN)


@pytest.fixture(scope="module")
def many(nodes: Nodes, endpoint: Endpoint) -> Many:
    return nodes.many(endpoint)


@pytest.fixture
def s3(endpoint: Endpoint) -> Iterator[S3Client]:
    """boto3, with which the tests look at what other clients did."""
    client = s3_client(endpoint)
    yield client
    client.close()


@pytest.fixture
def new_bucket(s3: S3Client) -> Callable[[], str]:
    """Makes an empty one, of the node's kind of versioning."""

    def make() -> str:
        name = f"bucket-{os.getpid()}-{next(_NUMBERS)}"
        s3.create_bucket(Bucket=name)
        return name

    return make


@pytest.fixture
def bucket(new_bucket: Callable[[], str]) -> str:
    return new_bucket()
