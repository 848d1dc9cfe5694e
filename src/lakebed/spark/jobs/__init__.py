"""Spark jobs that process whole data sets: one module per job, each with a function that takes a
session.

    report = verify(spark, backend)          # as `lakebed spark run verify` does

A job reports its progress to a `Watcher` and returns a `Report`.
"""
