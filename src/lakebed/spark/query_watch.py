"""How far a running query is, told to a watcher: by its tasks, for each of them is a like share.

    with watched(spark, watcher, "replay", total=row_count, size_bytes=size_bytes):
        frame.write…save()

Spark is asked twice a second, by a thread of its own; a Connect server tells by itself.
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
    """Of the stages that run."""

    done: int
    total: int


class ProgressShare:
    """What part of a total is done, which never becomes less."""

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
    """The query that runs in here; if nothing is raised, all of it is done then."""
    watcher.begin(what, total=total, unit=unit)
    share = ProgressShare(watcher, total=total, size_bytes=size_bytes)
    with _reporting(spark, share):
        yield
    watcher.advance(total, size_bytes=size_bytes)


def is_remote(spark: SparkSession) -> bool:
    """Whether its driver is a Spark Connect server."""
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
        found = list(stages or ())
        share.report(
            Tasks(
                sum(stage.num_completed_tasks for stage in found),
                sum(stage.num_tasks for stage in found),
            )
        )

    return report


def _step(spark: SparkSession, share: ProgressShare) -> Any:
    tracker = spark.sparkContext.statusTracker()

    def step() -> int | None:
        found = [tracker.getStageInfo(number) for number in tracker.getActiveStageIds()]
        known = [stage for stage in found if stage is not None]
        share.report(
            Tasks(
                sum(stage.numCompletedTasks for stage in known),
                sum(stage.numTasks for stage in known),
            )
        )
        return INTERVAL_NS

    return step
