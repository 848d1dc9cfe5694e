"""Spark: write and read a Delta table in a bucket with `lakebed.table` (`lakebed[spark]`)."""

import os

import lakebed.spark

place = {
    "s3Endpoint": os.environ["AWS_ENDPOINT_URL"],
    "accessKey": os.environ["AWS_ACCESS_KEY_ID"],
    "secretKey": os.environ["AWS_SECRET_ACCESS_KEY"],
    "region": os.environ["AWS_DEFAULT_REGION"],
    "table": "examples/numbers",  # the bucket must exist
}
spark = lakebed.spark.session()
numbers = spark.range(1000).withColumnRenamed("id", "number")
numbers.write.format("lakebed.table").mode("append").options(**place).save()
spark.read.format("lakebed.table").options(**place).load().createOrReplaceTempView("numbers")
spark.sql("SELECT count(*) AS rows, max(number) AS newest FROM numbers").show()
spark.stop()
