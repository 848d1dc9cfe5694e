"""Converts messages of topics and records of logs to Arrow batches for Spark.

    from lakebed.spark.arrow import messages

    batches = partition.read_batches()
    for batch in messages.record_batches(batches, topic="orders", partition=0):
        ...

With the compiled kernels, no Python loop runs over the rows: the storage engines return numbers,
positions and lengths as columns, a kernel copies the bytes, and Arrow and numpy convert the
numbers. (Only headers with names that are not valid UTF-8 are decoded in Python.) Needs pyarrow and
numpy, which the extra `spark` installs.
"""
