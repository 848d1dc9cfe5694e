"""The same requests here and to `moto`, with the same client: the same answers.

But for a written list (`differences`). `LAKEBED_SEED` is that of other sequences; one that fails is
told with its seed, and shortened first to what it takes to fail.
"""

from __future__ import annotations

import itertools
import logging
import os
from collections.abc import Iterator
from random import Random
from typing import Any, NamedTuple

import pytest
from moto.server import ThreadedMotoServer

from tests.s3.boto import boto_client
from tests.s3.differences import compared, is_asked
from tests.s3.endpoint import ACCESS_KEY, SECRET_KEY, Endpoint
from tests.s3.sides import Outcome, Sides
from tests.s3.steps import Step, drawn

SEED = os.environ.get("LAKEBED_SEED", "8")
STEPS = 70
IS_SEARCHING = os.environ.get("LAKEBED_HYPOTHESIS") == "searching"
SEQUENCES = 150 if IS_SEARCHING else 10


class Apart(NamedTuple):
    """Where the two went apart."""

    steps: list[Step]
    ours: Outcome
    theirs: Outcome

    def __str__(self) -> str:
        lines = [*map(repr, self.steps), f"ours:   {self.ours}", f"theirs: {self.theirs}"]
        return "\n".join(line[:1000] for line in lines)


class Servers:
    """Ours and theirs; each sequence has buckets of its own."""

    def __init__(self, clients: tuple[Any, Any]) -> None:
        self._clients = clients
        self._numbers = itertools.count()
        self.asked = 0

    def run(self, steps: list[Step]) -> Apart | None:
        sides = Sides(self._clients, f"s{next(self._numbers)}x-")
        for number, step in enumerate(steps):
            if not is_asked(step, sides):
                continue
            self.asked += 1
            ours, theirs = compared(step, *sides.ask(step))
            if ours != theirs:
                return Apart(steps[: number + 1], ours, theirs)
        return None

    def shortened(self, apart: Apart) -> Apart:
        """Without what can be left out."""
        for number in range(len(apart.steps) - 2, -1, -1):
            fewer = [step for index, step in enumerate(apart.steps) if index != number]
            apart = self.run(fewer) or apart
        return apart


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    logging.getLogger("werkzeug").setLevel(logging.CRITICAL)  # it logs each request
    moto = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    moto.start()
    host, port = moto.get_host_and_port()
    root = tmp_path_factory.mktemp("differential") / "store"
    try:
        with Endpoint(root, "--s3", "default-versioning=unversioned") as endpoint:
            yield Servers(
                (
                    boto_client(endpoint.url, ACCESS_KEY, SECRET_KEY),
                    boto_client(f"http://{host}:{port}", ACCESS_KEY, SECRET_KEY),
                )
            )
    finally:
        moto.stop()


def check(servers: Servers, seed: str) -> None:
    apart = servers.run(list(drawn(Random(seed), STEPS)))
    if apart is not None:
        pytest.fail(f"seed {seed}\n{servers.shortened(apart)}", pytrace=False)


@pytest.mark.process
@pytest.mark.parametrize("number", range(SEQUENCES))
def test_a_sequence_of_requests_is_answered_as_moto_does(servers: Servers, number: int) -> None:
    check(servers, f"{SEED}.{number}")


@pytest.mark.slow
@pytest.mark.process
def test_many_sequences_of_requests_are_answered_as_moto_does(servers: Servers) -> None:
    for number in range(SEQUENCES, 200):
        check(servers, f"{SEED}.{number}")
    print(f"seed {SEED}: {servers.asked} requests")
