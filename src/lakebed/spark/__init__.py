"""Spark on top of a Lakebed store: starts a Spark session and registers the data sources.

Importing this package does not import pyspark, and starts nothing.

    import lakebed.spark

    spark = lakebed.spark.session()           # or lakebed.spark.register(your_session)
    spark.read.format("lakebed.topic").option("path", root).option("topic", "events").load()
"""

from lakebed.spark.registry import register
from lakebed.spark.session import session

__all__ = ["register", "session"]
