"""@aws-sdk/client-s3, where Node is present."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.clients.environments import FOLDER
from tests.clients.names import HOSTILE
from tests.clients.steps import Steps, steps_of
from tests.s3.endpoint import Endpoint

PROGRAM = "node_sdk_steps.mjs"
MODULES = FOLDER / "node" / "node_modules"

# `make clients` says why it did not.
pytestmark = pytest.mark.skipif(
    not (MODULES / "@aws-sdk" / "client-s3").exists(), reason="npm has not installed it"
)


@pytest.fixture(scope="module")
def program(endpoint: Endpoint, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Steps]:
    home = tmp_path_factory.mktemp("node")
    environment = {"MODULES": str(MODULES)}
    with Steps(
        ["node"], file=PROGRAM, endpoint=endpoint, home=home, environment=environment
    ) as started:
        yield started


@pytest.mark.parametrize("step", steps_of(PROGRAM))
def test_the_sdk_for_javascript(program: Steps, bucket: str, step: str) -> None:
    program.run(step, bucket=bucket, hostile=list(HOSTILE.values()))
