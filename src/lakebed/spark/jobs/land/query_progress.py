"""Adds up what Spark reports about the micro-batches of the queries of the job `land`, for a
watcher.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

    from lakebed.spark.jobs.watcher import Watcher

METRICS: Final = "landed"
INTERVAL_S: Final = 0.5


class LandedCounts(NamedTuple):
    rows: int = 0
    rescued: int = 0  # rows with rescued fields
    dead_letters: int = 0
    size_bytes: int = 0


@dataclass
class Tally:
    """The counts of all micro-batches of one query. Spark itself only keeps its reports about the
    last hundred.
    """

    query: StreamingQuery
    batches: dict[int, LandedCounts] = field(default_factory=dict)

    def update(self) -> None:
        for progress in self.query.recentProgress:
            landed = landed_of(progress)
            if landed is not None:
                self.batches[progress["batchId"]] = landed

    def total(self) -> LandedCounts:
        return sum_of(list(self.batches.values()))


def follow(tallies: Sequence[Tally], watcher: Watcher, done: LandedCounts) -> bool:
    """Waits until all queries have ended, and reports their progress to the watcher.

    `done` is what earlier queries of the job landed. Returns True if the queries ended by
    themselves. A keyboard interrupt stops all queries, and the result is False. If a query fails,
    the others are stopped and its error is raised.
    """
    try:
        running = list(tallies)
        while running:
            ended = [
                tally
                for tally in running
                if tally.query.awaitTermination(INTERVAL_S / len(running))  # type: ignore[arg-type]
            ]
            running = [tally for tally in running if tally not in ended]
            for tally in tallies:
                tally.update()
            landed = sum_of([done, *(tally.total() for tally in tallies)])
            watcher.advance(landed.rows + landed.dead_letters, size_bytes=landed.size_bytes)
    except KeyboardInterrupt:
        watcher.report_line("stopped: the next run continues from here")
        return False
    finally:
        for tally in tallies:
            tally.query.stop()
    return True


def sum_of(parts: Sequence[LandedCounts]) -> LandedCounts:
    return LandedCounts(*map(sum, zip(*parts, strict=True))) if parts else LandedCounts()


def landed_of(progress: Any) -> LandedCounts | None:
    """Returns how much a micro-batch landed, from Spark's progress report.

    Returns None if the report has no counts.
    """
    metrics = (progress["observedMetrics"] or {}).get(METRICS)
    if metrics is None:
        return None
    values = metrics if isinstance(metrics, dict) else metrics.asDict()
    if "schema" in values:  # a Spark Connect server sends names and values separately
        names = [column["name"] for column in values["schema"]["fields"]]
        values = dict(zip(names, values["values"], strict=True))
    if values.get("rows") is None:
        return None
    return LandedCounts(*(values[name] for name in LandedCounts._fields))
