"""A program whose stream is killed: run by `test_topic_sink_kills`, in a process of its own.

    python -m tests.spark.sink_driver ROOT LINES CHECKPOINT POINT MARK

At a point of a commit the driver, its Java and the process that commits are killed together; at
`task` only the task's process is, and the task is tried again.
"""

from __future__ import annotations

import os
import sys
from typing import Any

from lakebed.spark.session import session
from tests.spark.sinks import DyingSource


def main(root: str, lines: str, checkpoint: str, point: str, mark: str) -> None:
    spark = session(**{"spark.master": "local[2,4]", "spark.sql.shuffle.partitions": "2"})
    spark.dataSource.register(DyingSource)
    jvm: Any = spark.sparkContext._jvm
    java = jvm.java.lang.ProcessHandle.current().pid()
    also = "" if point == "task" else f"{os.getpid()} {java}"
    rows = spark.readStream.option("maxFilesPerTrigger", 1).text(lines)
    # A shuffle: the order of the rows, and so their turns, differ from attempt to attempt.
    writer = rows.repartition(2).writeStream.format("dying.topic").trigger(availableNow=True)
    options = {"path": root, "topic": "t", "checkpointLocation": checkpoint}
    fate = {"killAt": point, "killMark": mark, "killAlso": also}
    for name, value in {**options, **fate}.items():
        writer = writer.option(name, value)
    writer.start().awaitTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])
