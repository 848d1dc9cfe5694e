"""However large an object is, little of it is in memory."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from lakebed.base.units import MIB

GROWTH_BYTES_MAX = 40 * MIB


@pytest.mark.process
def test_an_object_of_200_mib_streams_through_little_memory(tmp_path: Path) -> None:
    found = subprocess.run(
        [sys.executable, "-m", "tests.s3.stream_through", str(tmp_path)],
        check=True,
        capture_output=True,
        cwd=Path(__file__).parents[2],
    )
    growth = json.loads(found.stdout)
    assert growth["put"] < GROWTH_BYTES_MAX
    assert growth["get"] < GROWTH_BYTES_MAX
