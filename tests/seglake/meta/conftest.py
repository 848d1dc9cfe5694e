"""An open database with one bucket."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from lakebed.seglake.meta.database import Database
from tests.seglake.meta.samples import bucket, open_database, write


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    with open_database(tmp_path) as opened:
        write(opened, lambda writer: writer.add_bucket(bucket()))
        yield opened
