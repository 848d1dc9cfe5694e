"""Delta tables in a bucket, accessed through S3 without Delta jars: Parquet files and a log.

A writer first writes Parquet files, which readers do not see. The commit names them in the table's
log, all at once. `deltalake` reads and writes the log; pyarrow reads and writes the files.
"""
