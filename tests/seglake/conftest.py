"""An open lake with one bucket, whose versioning is enabled."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from lakebed.seglake.lake import Lake
from tests.seglake.lakes import BUCKET, open_lake


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lake]:
    with open_lake(tmp_path) as opened:
        opened.buckets.create(BUCKET)
        yield opened
