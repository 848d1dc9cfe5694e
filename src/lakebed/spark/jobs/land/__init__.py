"""The job `land`: copies topics and logs into Delta or Parquet tables in a bucket, each message
once.

    land(spark, LandConfig(source=Backend(path=root), topics=("events",), table="lake/events",
                           s3=own.options(), values="json"))

Messages do not pass through Spark. The task that reads a part of a topic converts it to rows and
writes the Parquet files itself. The rows of Spark's micro-batch contain only counts and the names
of these files; the sink commits the files under the id of the query and the number of the batch.
This is several times faster than passing rows from Python to Java and back.

Guarantees for a table:

- It contains each message once, even if a process is killed. The table records how far each topic
  or log was landed, and that takes precedence over Spark's checkpoint. Messages that cannot become
  rows go to a second table, the dead letters. Each of the two tables is exactly-once on its own.
- The table's schema decides the types. Values of other types are rescued: kept as text in a
  separate column of the same row. Integers may go into columns of floats. If the table may evolve,
  unknown fields become new columns; the first task that needs a column decides its type.
- A killed task leaves files that no commit names; a vacuum removes them.
- A batch becomes visible in a Delta table as a whole. In plain Parquet that is not possible: see
  `parquet_target`.
"""

from lakebed.spark.jobs.land.config import LandConfig
from lakebed.spark.jobs.land.job import land

__all__ = ["LandConfig", "land"]
