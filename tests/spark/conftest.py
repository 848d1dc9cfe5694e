"""One Spark session for all tests that need one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from lakebed.spark.session import session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

OPTIONS = {"spark.master": "local[2]", "spark.sql.shuffle.partitions": "2"}


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    started = session(**OPTIONS)
    yield started
    started.stop()
