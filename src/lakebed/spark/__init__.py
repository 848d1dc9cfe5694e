"""Spark over the store: finding a Java, a local session that stays on this machine, data sources.

Importing this package does not import pyspark, and starts nothing.

    import lakebed.spark

    spark = lakebed.spark.session()           # or lakebed.spark.register(your_session)
    spark.read.format("lakebed.topic").option("path", root).option("topic", "events").load()
"""

from lakebed.spark.registry import register
from lakebed.spark.session import session

__all__ = ["register", "session"]
