"""A program with a Spark session that lands and reads the topic: run by `spark_traffic`.

    python -m tests.load.spark_driver CHOSEN

Lands what is there, time and again, and reads the topic in between, until a line on standard input
comes; then once more, and tells what SQL finds in the table. Each result is a line of JSON.
"""

from __future__ import annotations

import json
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from lakebed.spark.backends import Backend, backend_options
from lakebed.spark.jobs.land import LandConfig, land
from lakebed.spark.session import session
from tests.load.messages import SCHEMA, TOPIC

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TABLE: Final = "lake/events"
OPTIMIZE_EACH: Final = 5  # batches
READ_EACH: Final = 3  # landings

_BY_PRODUCER: Final = (
    "SELECT producer, count(*) AS rows, count(DISTINCT id) AS ids, max(id) AS last, "
    "sum(crc32(pad)) AS total FROM events GROUP BY producer"
)
_BY_PARTITION: Final = (
    "SELECT partition, count(*) AS rows, min(offset) AS first, max(offset) AS last "
    "FROM messages GROUP BY partition"
)


def main(path: str) -> None:
    chosen = json.loads(Path(path).read_text())
    spark = session(master="local[2]", **{"spark.sql.shuffle.partitions": "2"})
    is_ending = threading.Event()
    threading.Thread(target=_await_line, args=(is_ending,), daemon=True).start()
    # The tasks read by turns over HTTP and from the files.
    backends = [Backend(**chosen["endpoint"]), Backend(path=chosen["root"])]
    is_last, turn = False, 0
    while not is_last:
        is_last = is_ending.is_set()
        backend = backends[turn % 2]
        tell(landed=_land(spark, backends[0], chosen))
        if turn % READ_EACH == 0 or is_last:
            tell(read=_read(spark, backend))
        turn += 1
    tell(table=_table(spark, chosen["s3"]))
    spark.stop()


def tell(**result: Any) -> None:
    print(json.dumps(result), flush=True)


def _await_line(is_ending: threading.Event) -> None:
    sys.stdin.readline()
    is_ending.set()


def _land(spark: SparkSession, backend: Backend, chosen: dict[str, Any]) -> int:
    config = LandConfig(
        source=backend, topics=(TOPIC,), table=TABLE, s3=chosen["s3"], values="json", schema=SCHEMA,
        checkpoint=chosen["checkpoint"], optimize_batches=OPTIMIZE_EACH, vacuum_retention_h=168.0,
        creates_bucket=True,
    )  # fmt: skip
    report = land(spark, config)
    assert report.facts["dead_letters"] == 0, report.facts
    return report.row_count


def _read(spark: SparkSession, backend: Backend) -> list[dict[str, int]]:
    options = backend_options(backend) | {"topic": TOPIC}
    spark.read.format("lakebed.topic").options(**options).load().createOrReplaceTempView("messages")
    return [row.asDict() for row in spark.sql(_BY_PARTITION).collect()]


def _table(spark: SparkSession, s3: dict[str, str]) -> list[dict[str, Any]]:
    spark.read.format("lakebed.table").options(**s3, table=TABLE).load().createOrReplaceTempView(
        "events"
    )
    return [row.asDict() for row in spark.sql(_BY_PRODUCER).collect()]


if __name__ == "__main__":
    main(*sys.argv[1:])
