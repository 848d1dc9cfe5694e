"""Messages of topics and records of logs as Arrow batches for Spark.

    from lakebed.spark.arrow import messages

    batches = partition.read_batches()
    for batch in messages.record_batches(batches, topic="orders", partition=0):
        ...

No Python loop runs over the rows: positions and lengths come from the engines' scans, a compiled
kernel copies the bytes, and numeric columns are used without conversion. Needs pyarrow and numpy,
which the extra `spark` installs.
"""
