"""Work that is no query: pieces of it to the tasks of a session, and what they found back.

    found = in_tasks(spark, check, [some, others])      # check(some) runs in a task of its own

It works with a classic session and over Spark Connect: the function is one that can be imported
where the tasks run. What goes in and comes out is pickled, so it is made of plain classes of ours.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from lakebed.base.units import MIB

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

TASK_BYTES = 256 * MIB
TASKS_MIN = 16  # if there is enough for that many
BYTES_WORTH_A_TASK = 4 * MIB

Input = TypeVar("Input")
Output = TypeVar("Output")


def in_tasks(
    spark: SparkSession, work: Callable[[Input], Output], inputs: Sequence[Input]
) -> list[Output]:
    """What came of each, in their order. An error of one fails the query."""
    if not inputs:
        return []
    numbers = spark.range(0, len(inputs), 1, len(inputs))  # one in each task
    # Each is pickled by itself, for a task that needs no other.
    run = partial(_run, work, [pickle.dumps(one) for one in inputs])
    found = numbers.mapInArrow(run, "number bigint, found binary").collect()
    outputs = {row.number: pickle.loads(row.found) for row in found}  # noqa: S301 - by `_run`
    return [outputs[number] for number in range(len(inputs))]


def grouped(
    sizes: Sequence[int], *, task_bytes: int = TASK_BYTES, tasks_min: int = TASKS_MIN
) -> list[range]:
    """Which of them, in order, are for which task: few tasks, of about the same number of bytes."""
    total = sum(sizes)
    count = max(-(-total // task_bytes), min(tasks_min, total // BYTES_WORTH_A_TASK), 1)
    groups: list[range] = []
    start, done = 0, 0
    for index, size in enumerate(sizes):
        # To whichever side of the boundary most of it is.
        if index > start and done + size / 2 > total * (len(groups) + 1) / count:
            groups.append(range(start, index))
            start = index
        done += size
    return [*groups, range(start, len(sizes))] if sizes else []


def _run(
    work: Callable[[Input], Output], inputs: Sequence[bytes], batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    import pyarrow as pa

    for batch in batches:
        numbers = batch.column(0).to_pylist()
        found = [pickle.dumps(work(pickle.loads(inputs[number]))) for number in numbers]  # noqa: S301
        columns = [pa.array(numbers, pa.int64()), pa.array(found, pa.binary())]
        yield pa.RecordBatch.from_arrays(columns, names=["number", "found"])
