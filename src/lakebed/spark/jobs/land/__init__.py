"""`land`: topics and logs become Delta or Parquet tables in a bucket, each message once.

    land(spark, LandConfig(source=Place(path=root), topics=("events",), table="lake/events",
                           s3=own.options(), values="json"))

The messages do not travel through Spark. A task that reads a part of a topic makes rows of it and
writes the Parquet files itself; what goes on as the rows of the micro-batch are the names of these
files, and the sink commits them, for the query and the number of the batch. That is several times
faster than rows that pass from Python to Java and back.

What a table is promised:

- Each message is there once, whatever was killed when: the table records how far it was landed, and
  what it says counts more than the checkpoint. Messages that cannot be rows go to a second table,
  the dead letters; each of the two tables is exactly once by itself.
- The table's schema decides. Values of other types are rescued, as text in a column of the same
  row; whole numbers fit columns of floats. Fields that have no column get one, if the table may
  grow; the first task that needs it decides its type.
- A killed task leaves files that nobody names; a vacuum removes them.
- A Delta table shows a batch as a whole. Plain Parquet has no way to: `parquet_table` says what
  holds there.
"""

from lakebed.spark.jobs.land.config import LandConfig
from lakebed.spark.jobs.land.job import land

__all__ = ["LandConfig", "land"]
