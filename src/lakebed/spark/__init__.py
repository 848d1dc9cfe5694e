"""Spark over the store: finding a Java, and a local session that stays on this machine.

Importing this package does not import pyspark, and starts nothing.

    from lakebed.spark.session import session

    with session() as spark:
        spark.range(10).count()
"""
