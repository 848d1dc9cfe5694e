"""Reads and writes Delta tables in a bucket through S3, without Delta's Java libraries.

A table is Parquet files and a log. A writer first writes Parquet files, which readers do not see. A
commit then adds all of them to the table's log in one step. `deltalake` reads and writes the log;
pyarrow reads and writes the files.
"""
