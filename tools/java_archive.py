"""Archive the Java classes that Spark loads, so that tests start it in half the time.

Starts a local session once, uses it as the tests do, and has Java write the classes that it loaded
to a file in this environment. Does nothing if that file is there.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile

from tests.java import ARCHIVE, BASE_OPTIONS

_MINUTES_MAX = 5


def main() -> int:
    if ARCHIVE.exists():
        return 0
    print("archiving Spark's Java classes", flush=True)
    for old in ARCHIVE.parent.glob("spark-classes-*"):
        old.unlink()
    with tempfile.TemporaryDirectory() as folder:
        fresh = ARCHIVE.with_suffix(f".{os.getpid()}.tmp")
        options = f"{BASE_OPTIONS} -XX:ArchiveClassesAtExit={fresh} -Xlog:disable"
        environment = {**os.environ, "SPARK_SUBMIT_OPTS": options}
        done = subprocess.run(
            [sys.executable, "-c", _SESSION],
            cwd=folder,
            env=environment,
            capture_output=True,
            text=True,
            timeout=_MINUTES_MAX * 60,
            check=False,
        )
    if done.returncode or not fresh.exists():
        print(f"the classes were not archived: {done.stderr[-500:]}", file=sys.stderr)
        return 0  # only slower
    fresh.rename(ARCHIVE)
    return 0


_SESSION = """
from pyspark import SparkContext
from lakebed.spark.session import session
from lakebed.host.store import Store

with Store.open("store") as store:
    store.topic("orders").append_batch([b"%d" % number for number in range(100)]).result()

spark = session(master="local[2]")
spark.range(1000).selectExpr("id % 10 AS k", "id").groupBy("k").count().orderBy("k").collect()
spark.createDataFrame([(1, "a"), (2, "b")], ["x", "y"]).write.parquet("table")
spark.read.parquet("table").filter("x > 1").toPandas()
read = spark.read.format("lakebed.topic").option("path", "store").option("topic", "orders")
read.load().selectExpr("cast(value AS string) AS v").count()
stream = spark.readStream.format("lakebed.topic").option("path", "store").option("topic", "orders")
started = stream.load().writeStream.format("memory").queryName("seen").trigger(availableNow=True)
started.option("checkpointLocation", "checkpoint").start().awaitTermination()
spark.sql("SELECT count(*) FROM seen").collect()
process = SparkContext._gateway.proc
spark.stop()
process.stdin.close()
process.wait()
"""


if __name__ == "__main__":
    sys.exit(main())
