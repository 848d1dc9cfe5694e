"""Every kind of object store, so that one suite holds for all; and a real S3 server."""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import sys
import threading
import urllib.request
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

import pytest

from lakebed.aof.tiers.folder_store import FolderStore
from lakebed.aof.tiers.object_store import ObjectStore
from lakebed.aof.tiers.object_store_address import open_object_store
from lakebed.aof.tiers.obstore_store import S3Options
from lakebed.base.runner import ThreadRunner
from lakebed.base.simulation.databases import SimulatedDatabases
from lakebed.base.simulation.disk import SimulatedDisk
from lakebed.base.simulation.world import World
from lakebed.kernels.disk import real_disk
from lakebed.seglake.config import SeglakeConfig
from lakebed.seglake.lake import Lake
from lakebed.store.lake_object_store import LakeObjectStore
from tests.fakes.object_store import FakeObjectStore

# The simulated disk belongs to one thread: its callers are interleaved, never parallel.
KINDS_FOR_THREADS = [
    "fake",
    "memory",
    "folder",
    "lake",
    pytest.param("s3", marks=[pytest.mark.process]),
]
KINDS = [*KINDS_FOR_THREADS, "simulated folder", "simulated lake"]


@pytest.fixture(scope="session")
def s3_endpoint() -> Iterator[str]:
    """A server in another process, with the bucket `tier2`."""
    server = subprocess.Popen(
        [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", "0"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1", "PYTHONWARNINGS": "ignore"},
    )
    assert server.stderr is not None
    drain = threading.Thread(target=deque, args=(server.stderr, 0))
    try:
        endpoint = next(
            match[1] for line in server.stderr if (match := re.search(r"(http://[\d.:]+)", line))
        )
        # It logs every request: somebody must read that, or the pipe fills and it stops.
        drain.start()
        make_bucket(endpoint, "tier2")
        yield endpoint
    finally:
        server.kill()
        server.wait()
        if drain.ident is not None:
            drain.join()
        server.stderr.close()


def make_bucket(endpoint: str, bucket: str) -> None:
    request = urllib.request.Request(f"{endpoint}/{bucket}", method="PUT")  # noqa: S310 - ours
    with urllib.request.urlopen(request, timeout=30):  # noqa: S310
        pass


def s3_options(endpoint: str, **others: int) -> S3Options:
    return S3Options(
        endpoint=endpoint,
        region="us-east-1",
        access_key_id="someone",
        secret_access_key="secret",  # noqa: S106
        **others,  # type: ignore[arg-type]
    )


@pytest.fixture
def opened_lake(tmp_path: Path) -> Iterator[Callable[[], Lake]]:
    with (
        ThreadRunner() as runner,
        Lake(tmp_path / "store", disk=real_disk(), runner=runner) as lake,
    ):
        yield lambda: lake


@pytest.fixture
def simulated_lake() -> Iterator[Callable[[], Lake]]:
    world = World(1)
    config = SeglakeConfig(reserve_bytes=0)
    with contextlib.closing(SimulatedDatabases(world.disk)) as databases:
        connector = databases.connect
        with Lake(
            "/store", disk=world.disk, runner=world.runner, config=config, connector=connector
        ) as lake:
            yield lambda: lake


@pytest.fixture(params=KINDS)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> ObjectStore:
    match request.param:
        case "fake":
            return FakeObjectStore(World(1).runner, Random(1))
        case "memory":
            return open_object_store("memory://", disk=real_disk())
        case "folder":
            return open_object_store(f"file://{tmp_path}/tier2", disk=real_disk())
        case "simulated folder":
            return FolderStore(SimulatedDisk(Random(1)), "/store/tier2")
        case "lake":
            return LakeObjectStore(request.getfixturevalue("opened_lake"))
        case "simulated lake":
            return LakeObjectStore(request.getfixturevalue("simulated_lake"))
    endpoint: str = request.getfixturevalue("s3_endpoint")
    # Each test has a prefix of its own in the one bucket.
    url = f"s3://tier2/{re.sub('[^a-z0-9]', '-', request.node.name.lower())}"
    return open_object_store(url, disk=real_disk(), options=s3_options(endpoint))
