"""s3fs and fsspec, in an environment of their own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.clients.environments import installed
from tests.clients.names import but
from tests.clients.nodes import Many
from tests.clients.steps import Steps, steps_of
from tests.s3.endpoint import Endpoint

PROGRAM = "s3fs_steps.py"

NAMES = but("trailing slash")  # to s3fs, it is a folder


@pytest.fixture(scope="module")
def program(endpoint: Endpoint, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Steps]:
    command = [str(installed("s3fs", "bin/python"))]
    home = tmp_path_factory.mktemp("s3fs")
    with Steps(command, file=PROGRAM, endpoint=endpoint, home=home) as started:
        yield started


@pytest.mark.parametrize("step", steps_of(PROGRAM))
def test_s3fs(program: Steps, bucket: str, many: Many, step: str) -> None:
    if step == "step_listings_turn_pages":
        program.run(step, many=many.bucket, names=many.names)
    elif step == "step_hostile_names_round_trip":
        program.run(step, bucket=bucket, hostile=NAMES)
    else:
        program.run(step, bucket=bucket)
