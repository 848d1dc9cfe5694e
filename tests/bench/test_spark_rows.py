"""The rows about Spark, with very little work: each does what it counts. No time is looked at."""

from __future__ import annotations

from contextlib import AbstractContextManager, ExitStack
from pathlib import Path

import pytest

from bench import spark, spark_jobs
from bench.row import Contestant

ROWS = [*spark.rows(spark.tiny(Path())), *spark_jobs.rows(spark.tiny(Path()))]
# Rows that must be counted; bytes are as many as a store has.
COUNTS = {"rows": {300, 3_000}}

pytestmark = pytest.mark.spark


CONTESTANTS = [(row.name, one.name) for row in ROWS for one in row.contestants]
# The first is a scan of a topic by its source.
CASES = [CONTESTANTS[0], *(pytest.param(*one, marks=pytest.mark.slow) for one in CONTESTANTS[1:])]


@pytest.mark.parametrize(("row", "name"), CASES)
def test_a_run_does_the_work_that_it_counts(row: str, name: str, tmp_path: Path) -> None:
    check(row, name, tmp_path)


def check(row_name: str, name: str, scratch: Path) -> None:
    unit, contestant = find(row_name, name, scratch)
    with ExitStack() as stack:
        made = contestant.setup()
        run = stack.enter_context(made) if isinstance(made, AbstractContextManager) else made
        done = run()
        assert done in COUNTS[unit] if unit in COUNTS else done > 100_000


def find(row_name: str, name: str, scratch: Path) -> tuple[str, Contestant]:
    work = spark.tiny(scratch)
    for row in (*spark.rows(work), *spark_jobs.rows(work)):
        if row.name == row_name:
            return row.unit, next(one for one in row.contestants if one.name == name)
    raise AssertionError(f"there is no row {row_name}")
