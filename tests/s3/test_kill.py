"""A server is killed while clients write: what it acknowledged is there, and nothing is mixed.

What the clients were told stands in a ledger of the test's own process. `LAKEBED_SEED` repeats the
choices of a run; when exactly the kill comes between them is up to the machine.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.s3.audit import Audit
from tests.s3.boto import boto_client
from tests.s3.endpoint import Endpoint
from tests.s3.ledger import Ledger, Story
from tests.s3.writers import Writer

BUCKETS = {"versioned": True, "plain": False}
WRITERS = 6
KEYS_OF_A_WRITER = 8
ACKNOWLEDGED_MAX = 300  # of a round


def client_of(endpoint: Endpoint) -> Any:
    return boto_client(endpoint.url, endpoint.access_key, endpoint.secret_key)


def make_buckets(client: Any) -> None:
    for bucket, is_versioned in BUCKETS.items():
        client.create_bucket(Bucket=bucket)
        if is_versioned:
            client.put_bucket_versioning(
                Bucket=bucket, VersioningConfiguration={"Status": "Enabled"}
            )


def open_stories(ledger: Ledger) -> list[list[Story]]:
    """By writer."""
    return [
        [
            ledger.open(bucket, f"writer {writer}/object+{number}", is_versioned=is_versioned)
            for bucket, is_versioned in BUCKETS.items()
            for number in range(KEYS_OF_A_WRITER)
        ]
        for writer in range(WRITERS)
    ]


def write_until_killed(
    endpoint: Endpoint, client: Any, ledger: Ledger, stories: list[list[Story]], *, seed: str
) -> int:
    """How many changes were acknowledged."""
    before = ledger.acknowledged
    count = random.Random(seed).randint(1, ACKNOWLEDGED_MAX)
    writers = [
        Writer(ledger, client, owned, f"{seed}-{number}") for number, owned in enumerate(stories)
    ]
    for writer in writers:
        writer.start()
    ledger.wait_for(before + count)
    endpoint.kill()
    for writer in writers:
        writer.join()
    if ledger.failures:
        raise ledger.failures[0]
    return ledger.acknowledged - before


def check(client: Any, ledger: Ledger) -> int:
    """How many objects and versions were read."""
    reads = 0
    for bucket in BUCKETS:
        audit = Audit(client, bucket)
        audit.run(ledger)
        reads += audit.reads
    return reads


def check_files(root: Path) -> None:
    found = subprocess.run(
        [sys.executable, "-m", "lakebed.cli", "--root", str(root), "s3", "verify"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert found.returncode == 0, found.stdout + found.stderr


def kill_again_and_again(root: Path, *, rounds: int) -> None:
    seed = os.environ.get("LAKEBED_SEED", "8")
    ledger = Ledger()
    stories = open_stories(ledger)
    with Endpoint(root, "--s3", "default-versioning=unversioned") as endpoint:
        client = client_of(endpoint)  # the port stays the same
        make_buckets(client)
        for number in range(rounds):
            count = write_until_killed(endpoint, client, ledger, stories, seed=f"{seed}-{number}")
            check_files(root)  # as the dead left them
            endpoint.start()
            reads = check(client, ledger)
            print(f"seed {seed}, round {number}: {count} acknowledged, {reads} read")
        assert endpoint.stop() == 0
    check_files(root)


@pytest.mark.process
def test_what_was_acknowledged_is_there_after_a_kill(tmp_path: Path) -> None:
    kill_again_and_again(tmp_path / "store", rounds=2)


@pytest.mark.slow
@pytest.mark.process
def test_what_was_acknowledged_is_there_after_many_kills(tmp_path: Path) -> None:
    kill_again_and_again(tmp_path / "store", rounds=25)
