"""Writes the topic to a Delta table on the node's S3 with Spark, and queries the table with SQL.

The output of Spark and Java goes to a file in the scratch folder.
"""

from __future__ import annotations

import contextlib
import signal
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from lakebed.node.demo.events import SCHEMA, TOPIC
from lakebed.spark.backends import Backend

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakebed.node.demo.context import DemoContext
    from lakebed.node.demo.events import Ledger

BUCKET: Final = "lake"
TABLE: Final = "lake/events"
AFTER: Final = " after the restart"
SPARK_LOG: Final = "spark.log"
QUERY: Final = (
    "SELECT kind, count(*) AS events, count(DISTINCT id) AS ids, sum(amount) AS amount "
    "FROM events GROUP BY kind"
)


@dataclass(frozen=True)
class QueryResult:
    """The totals by kind of event that SQL computed from the table."""

    counts: Counter[str]
    ids: int
    amounts: Counter[str]

    @property
    def rows(self) -> int:
        return self.counts.total()


@dataclass
class Lake:
    """The Spark session, and how it reads the topic and writes the table."""

    spark: SparkSession
    source: Backend
    s3: Mapping[str, str] = field(repr=False)  # contains a secret

    def land(self, context: DemoContext, *, when: str = "") -> int:
        """Writes the new events of the topic to the table, and returns the number of rows."""
        from lakebed.spark.jobs.land import LandConfig, land

        config = LandConfig(
            source=self.source, topics=(TOPIC,), table=TABLE, s3=self.s3, values="json",
            schema=SCHEMA, creates_bucket=True,
        )  # fmt: skip
        report = land(self.spark, config, context.watcher)
        dead = report.facts["dead_letters"]
        assert isinstance(dead, int), "a count"
        context.check(f"events not written to the table{when}", expected=0, found=dead)
        return report.row_count

    def query(self) -> QueryResult:
        """Queries the current contents of the table with SQL."""
        frame = self.spark.read.format("lakebed.table").options(**self.s3, table=TABLE).load()
        frame.createOrReplaceTempView("events")
        rows = self.spark.sql(QUERY).collect()
        return QueryResult(
            Counter({row.kind: row.events for row in rows}),
            sum(row.ids for row in rows),
            Counter({row.kind: row.amount for row in rows}),
        )


@contextmanager
def open_lake(context: DemoContext, s3: Mapping[str, str]) -> Iterator[Lake]:
    """Starts Spark for the duration of a `with` block. Raises `SparkUnavailable` if pyspark or Java
    is missing, or if Spark does not start.
    """
    from lakebed.spark.session import session

    context.watcher.begin("starting Spark")
    began_ns = context.now_ns()
    with _handler_kept():
        spark = session(
            log=context.folder / SPARK_LOG,
            **{
                "spark.sql.shuffle.partitions": "2",
                "spark.sql.warehouse.dir": str(context.folder / "warehouse"),
            },
        )
    try:
        context.report(
            "spark", f"{spark.version} started in {context.seconds_since(began_ns):.1f} s"
        )
        yield Lake(spark, Backend(path=str(context.root)), s3)
    except BaseException:
        # After an interrupted call to Java its response is still pending, and the next call may
        # get it instead of its own. Then Spark cannot be stopped, but it ends with this process.
        with contextlib.suppress(Exception):
            spark.stop()
        raise
    spark.stop()


def land_and_query(context: DemoContext, lake: Lake, ledger: Ledger) -> None:
    """Writes all events to the table, and checks that SQL computes the same totals."""
    began_ns = context.now_ns()
    rows = lake.land(context)
    rate = context.rate("rows landed", rows, began_ns)
    context.check("rows landed", expected=ledger.event_count, found=rows)
    context.report("landed", f"{rows:,} rows in a Delta table on the node's S3: {rate:,} rows/s")
    context.watcher.begin("query")
    began_ns = context.now_ns()
    found = lake.query()
    compare(context, found, ledger, when="")
    orders = found.counts["order"]
    context.report(
        "queried",
        f"with SQL in {context.seconds_since(began_ns):.1f} s: {found.rows:,} rows, "
        f"{orders:,} of them orders worth {found.amounts['order'] / 100:,.2f}",
    )


def land_the_rest(context: DemoContext, lake: Lake, ledger: Ledger, *, landed_count: int) -> None:
    """Writes the events that are not in the table yet, and checks that it has each event once.

    `landed_count` is the number of events that the table already has.
    """
    rows = lake.land(context, when=AFTER)
    context.check(
        "rows landed after the restart", expected=ledger.event_count - landed_count, found=rows
    )
    context.watcher.begin("query")
    found = lake.query()
    context.check("ids in the table", expected=ledger.event_count, found=found.ids)
    compare(context, found, ledger, when=AFTER)
    context.report(
        "landed", f"the remaining {rows:,} rows; SQL counts {found.rows:,}, each with its own id"
    )


def compare(context: DemoContext, found: QueryResult, ledger: Ledger, *, when: str) -> None:
    """Compares the numbers of rows and the sums of cents with the ledger, in total and by kind."""
    context.check(f"rows counted by SQL{when}", expected=ledger.event_count, found=found.rows)
    context.check(
        f"cents summed by SQL{when}",
        expected=ledger.amounts.total(),
        found=found.amounts.total(),
    )
    kinds = sum(
        found.counts[kind] == count and found.amounts[kind] == ledger.amounts[kind]
        for kind, count in ledger.counts.items()
    )
    context.check(
        f"kinds with the same totals in SQL{when}", expected=len(ledger.counts), found=kinds
    )


@contextmanager
def _handler_kept() -> Iterator[None]:
    """Restores the SIGINT handler after the `with` block, because pyspark replaces it."""
    handler = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        with contextlib.suppress(ValueError):  # only the main thread can set handlers
            signal.signal(signal.SIGINT, handler)
