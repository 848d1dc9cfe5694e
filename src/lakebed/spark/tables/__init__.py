"""Delta tables in a bucket: Parquet files and a log, reached through S3; no Delta jars are needed.

Whoever writes rows writes Parquet files first, which nobody sees; the commit names them in the
table's log, all at once. `deltalake` reads and writes that log; the files are pyarrow's.
"""
