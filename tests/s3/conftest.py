"""A service on an empty store."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from lakebed.s3.service import Service
from tests.s3.calls import open_service
from tests.seglake.lakes import BUCKET


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    with open_service(tmp_path) as opened:
        yield opened


@pytest.fixture
def bucket(service: Service) -> str:
    """Whose versioning is enabled."""
    service.lake.buckets.create(BUCKET)
    return BUCKET
