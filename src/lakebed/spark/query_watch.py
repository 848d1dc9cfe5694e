"""Reports the progress of a running query to a watcher.

    with watched(spark, watcher, "replay", total=row_count, size_bytes=size_bytes):
        frame.write…save()

Progress is the number of finished tasks divided by the number of all tasks, in the stages that
Spark reports. In a classic session, a thread asks Spark for these numbers twice a second; the
stages are those that run at that moment. A Spark Connect server sends them without being asked.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

from lakebed.base.clock import NS_PER_S
from lakebed.base.runner import ThreadRunner
from lakebed.spark.jobs.watcher import Watcher

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

INTERVAL_NS = NS_PER_S // 2


class Tasks(NamedTuple):
    """The number of tasks in the stages that Spark reports, and how many of them are done."""

    done: int
    total: int


class ProgressShare:
    """Converts task counts to rows and bytes, and reports them to a watcher.

    The reported progress never decreases, even if Spark starts another stage.
    """

    def __init__(self, watcher: Watcher, *, total: int, size_bytes: int) -> None:
        self._watcher = watcher
        self._total = total
        self._size_bytes = size_bytes
        self._reported = 0.0

    def report(self, tasks: Tasks) -> None:
        share = tasks.done / tasks.total if tasks.total else 0.0
        if share > self._reported:
            self._reported = share
            self._watcher.advance(
                int(self._total * share), size_bytes=int(self._size_bytes * share)
            )


@contextmanager
def watched(
    spark: SparkSession,
    watcher: Watcher,
    what: str,
    *,
    total: int = 0,
    size_bytes: int = 0,
    unit: str = "rows",
) -> Iterator[None]:
    """Reports the progress of the query that runs in the `with` block to the watcher.

    If the block ends without an error, everything is reported as done. `what` names the step of the
    job; `total` (in `unit`) and `size_bytes` are the amount of work.
    """
    watcher.begin(what, total=total, unit=unit)
    share = ProgressShare(watcher, total=total, size_bytes=size_bytes)
    with _reporting(spark, share):
        yield
    watcher.advance(total, size_bytes=size_bytes)


def is_remote(spark: SparkSession) -> bool:
    """Returns whether the driver is a Spark Connect server."""
    return type(spark).__module__.startswith("pyspark.sql.connect")


@contextmanager
def _reporting(spark: SparkSession, share: ProgressShare) -> Iterator[None]:
    if is_remote(spark):
        handler = _handler(share)
        spark.registerProgressHandler(handler)
        try:
            yield
        finally:
            spark.removeProgressHandler(handler)
        return
    with ThreadRunner() as runner:
        task = runner.spawn("lakebed-spark-progress", _step(spark, share))
        try:
            yield
        finally:
            task.stop()


def _handler(share: ProgressShare) -> Any:
    def report(stages: Iterable[Any] | None, **_: object) -> None:
        running = list(stages or ())
        share.report(
            Tasks(
                sum(stage.num_completed_tasks for stage in running),
                sum(stage.num_tasks for stage in running),
            )
        )

    return report


def _step(spark: SparkSession, share: ProgressShare) -> Any:
    tracker = spark.sparkContext.statusTracker()

    def step() -> int | None:
        stages = [tracker.getStageInfo(number) for number in tracker.getActiveStageIds()]
        running = [stage for stage in stages if stage is not None]
        share.report(
            Tasks(
                sum(stage.numCompletedTasks for stage in running),
                sum(stage.numTasks for stage in running),
            )
        )
        return INTERVAL_NS

    return step
