"""Runs a Python function on many inputs in Spark tasks, for work that is not a query.

    outputs = in_tasks(spark, check, [some, others])      # check(some) runs in its own task

Works with classic sessions and Spark Connect. The function must be importable where the tasks run.
Inputs and outputs are pickled.
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
TASKS_MIN = 16  # if there is enough data
BYTES_WORTH_A_TASK = 4 * MIB

Input = TypeVar("Input")
Output = TypeVar("Output")


def in_tasks(
    spark: SparkSession, work: Callable[[Input], Output], inputs: Sequence[Input]
) -> list[Output]:
    """Calls `work` with each input, in a task of its own. Returns the outputs in the order of the
    inputs.

    If one task fails, the whole call fails.
    """
    if not inputs:
        return []
    numbers = spark.range(0, len(inputs), 1, len(inputs))  # one per task
    # Each input is pickled separately, so that a task only unpickles its own.
    run = partial(_run, work, [pickle.dumps(item) for item in inputs])
    rows = numbers.mapInArrow(run, "number bigint, output binary").collect()
    outputs = {row.number: pickle.loads(row.output) for row in rows}  # noqa: S301 - by `_run`
    return [outputs[number] for number in range(len(inputs))]


def grouped(
    sizes: Sequence[int], *, task_bytes: int = TASK_BYTES, tasks_min: int = TASKS_MIN
) -> list[range]:
    """Divides items into consecutive ranges, one per task, with about equal numbers of bytes.

    `sizes` are the sizes of the items in bytes. A task gets about `task_bytes` at most, unless a
    single item is larger. If there are enough items and bytes, there are at least `tasks_min`
    tasks.
    """
    total = sum(sizes)
    count = max(-(-total // task_bytes), min(tasks_min, total // BYTES_WORTH_A_TASK), 1)
    groups: list[range] = []
    start, done = 0, 0
    for index, size in enumerate(sizes):
        # An item goes to the side of the boundary where most of it is.
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
        outputs = [pickle.dumps(work(pickle.loads(inputs[number]))) for number in numbers]  # noqa: S301
        columns = [pa.array(numbers, pa.int64()), pa.array(outputs, pa.binary())]
        yield pa.RecordBatch.from_arrays(columns, names=["number", "output"])
