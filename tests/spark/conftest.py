"""One Spark session for all tests that need one, and a node of a file for those of tables."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from lakebed.spark.session import session
from lakebed.spark.tables.location import TableLocation
from tests.s3.endpoint import Endpoint
from tests.spark.table_locations import make_bucket, new_place

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

OPTIONS = {"spark.master": "local[2]", "spark.sql.shuffle.partitions": "2"}


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    started = session(**OPTIONS)
    yield started
    started.stop()


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Endpoint]:
    with Endpoint(tmp_path_factory.mktemp("node") / "store") as started:
        make_bucket(started)
        yield started


@pytest.fixture
def place(node: Endpoint) -> TableLocation:
    return new_place(node)
