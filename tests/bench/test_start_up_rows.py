"""The row of the command line's start-up: every contestant runs here, and a failure is none."""

from __future__ import annotations

import subprocess
import sys

import pytest

from bench import start_up
from bench.row import Contestant

pytestmark = pytest.mark.process

(ROW,) = start_up.rows()


@pytest.mark.parametrize("contestant", ROW.contestants, ids=lambda contestant: contestant.name)
def test_a_run_is_one_start(contestant: Contestant) -> None:
    run = contestant.setup()
    assert callable(run)
    assert run() == 1


def test_a_command_that_fails_is_not_counted() -> None:
    with pytest.raises(subprocess.CalledProcessError):
        start_up.starting([sys.executable, "-c", "raise SystemExit(1)"])()
