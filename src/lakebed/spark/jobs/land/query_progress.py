"""How far the queries are: what Spark says of their batches, added up and told to a watcher."""

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
    rescued: int = 0  # of these rows
    dead_letters: int = 0
    size_bytes: int = 0


@dataclass
class Tally:
    """Of one query. Spark keeps the last hundred batches; those before are remembered here."""

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
    """Until all have ended, or were stopped; if one fails, the others are stopped, and what it
    failed with is raised. An interrupt stops them, too: False then. `done` was landed before."""
    try:
        left = list(tallies)
        while left:
            ended = [one for one in left if one.query.awaitTermination(INTERVAL_S / len(left))]  # type: ignore[arg-type]
            left = [one for one in left if one not in ended]
            for one in tallies:
                one.update()
            landed = sum_of([done, *(one.total() for one in tallies)])
            watcher.advance(landed.rows + landed.dead_letters, size_bytes=landed.size_bytes)
    except KeyboardInterrupt:
        watcher.report_line("stopped: what is not landed yet is landed by the next run")
        return False
    finally:
        for one in tallies:
            one.query.stop()
    return True


def sum_of(parts: Sequence[LandedCounts]) -> LandedCounts:
    return LandedCounts(*map(sum, zip(*parts, strict=True))) if parts else LandedCounts()


def landed_of(progress: Any) -> LandedCounts | None:
    """What a batch landed; None if it was none."""
    metrics = (progress["observedMetrics"] or {}).get(METRICS)
    if metrics is None:
        return None
    values = metrics if isinstance(metrics, dict) else metrics.asDict()
    if "schema" in values:  # as a Connect server has it: the values apart from their names
        names = [one["name"] for one in values["schema"]["fields"]]
        values = dict(zip(names, values["values"], strict=True))
    if values.get("rows") is None:
        return None
    return LandedCounts(*(values[name] for name in LandedCounts._fields))
