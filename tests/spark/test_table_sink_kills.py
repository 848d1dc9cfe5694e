"""A stream into a table whose driver is killed, and started again: each row is there once."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from lakebed.spark.tables.location import TableLocation
from tests.s3.endpoint import Endpoint
from tests.spark.dying_table import TABLE_POINTS
from tests.spark.killed_streams import KilledStream
from tests.spark.table_locations import make_bucket, new_place, options_of, rows_of

pytestmark = [pytest.mark.spark, pytest.mark.process]


class TableStream(KilledStream):
    def __init__(self, folder: Path, place: TableLocation) -> None:
        self._place = place
        super().__init__(folder, "dying.table", options_of(place), columns=("value",))

    def check(self) -> None:
        assert sorted(row["value"] for row in rows_of(self._place)) == self.lines


@pytest.fixture
def stream(tmp_path: Path) -> Iterator[TableStream]:
    with Endpoint(tmp_path / "store") as node:
        make_bucket(node)
        yield TableStream(tmp_path, new_place(node))


@pytest.mark.timeout(1800)
def test_a_driver_that_is_killed_leaves_each_row_once(stream: TableStream) -> None:
    stream.add_batches(1)
    stream.run_until_killed("committed")
    stream.add_batches(1)
    stream.run_to_the_end()
    stream.check()


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_kills_at_every_point_leave_each_row_once(stream: TableStream) -> None:
    seed = int(os.environ.get("LAKEBED_CASE", "1"))
    print(f"LAKEBED_CASE={seed}")
    random = Random(seed)
    points = TABLE_POINTS[1:]
    for point in (*points, *random.sample(points, 2)):
        # Enough of them: the batch that was killed last is repeated, and if the table has it, it
        # does not come to every point.
        passes = random.randint(0, 1)
        stream.add_batches(passes + 1)
        stream.run_until_killed(point, passes=passes)
    stream.add_batches(1)
    stream.run_to_the_end()
    stream.check()
