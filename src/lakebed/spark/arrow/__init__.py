"""Rows for Spark as Arrow batches: messages of topics and records of logs, column by column.

    from lakebed.spark.arrow import messages

    batches = partition.read_batches()
    for batch in messages.record_batches(batches, topic="orders", partition=0):
        ...

No loop of Python's runs over the rows: positions and lengths come from the engines' scans, a
compiled kernel copies the bytes, and numbers are taken as they are. Needs pyarrow and numpy, which
come with the extra `spark`.
"""
