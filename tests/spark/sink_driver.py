"""A program whose stream is killed: run by `KilledStream`, in a process of its own.

    python -m tests.spark.sink_driver DOCUMENT

The document says which lines are read, and how they are written. At a point of a commit the driver,
its Java and the process that commits are killed together; at `task` only the task's process is, and
the task is tried again.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

from lakebed.spark.session import session
from tests.spark.dying_table import DyingTable
from tests.spark.sinks import DyingTopic


def main(path: str) -> None:
    chosen = json.loads(Path(path).read_text())
    spark = session(**{"spark.master": "local[2,4]", "spark.sql.shuffle.partitions": "2"})
    for source in (DyingTopic, DyingTable):
        spark.dataSource.register(source)
    jvm: Any = spark.sparkContext._jvm
    java = jvm.java.lang.ProcessHandle.current().pid()
    also = "" if chosen["point"] == "task" else f"{os.getpid()} {java}"
    rows = spark.readStream.option("maxFilesPerTrigger", 1).text(chosen["lines"])
    rows = rows.repartition(2).selectExpr(*chosen["columns"])
    writer = rows.writeStream.format(chosen["source"]).trigger(availableNow=True)
    fate = {"killAt": chosen["point"], "killMark": chosen["mark"], "killAlso": also}
    for name, value in {**chosen["options"], **fate}.items():
        writer = writer.option(name, value)
    writer.start().awaitTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])
