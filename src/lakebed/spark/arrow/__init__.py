"""Converts messages of topics and records of logs to Arrow batches for Spark.

    from lakebed.spark.arrow import messages

    batches = partition.read_batches()
    for batch in messages.record_batches(batches, topic="orders", partition=0):
        ...

No Python loop runs over the rows: the storage engines return positions and lengths as columns, a
compiled kernel copies the bytes, and numeric columns are used without conversion. Needs pyarrow and
numpy, which the extra `spark` installs.
"""
