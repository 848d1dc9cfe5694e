"""What works on whole data sets: one module per job, each a function that takes a SparkSession.

    report = verify(spark, place)          # as `lakebed spark run verify` does

A job tells a `Watcher` how far it is, and returns a `Report`.
"""
