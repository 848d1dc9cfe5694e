"""pyarrow: write a Parquet file to a bucket and read one column."""

import os

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow.fs import S3FileSystem

files = S3FileSystem(
    endpoint_override=os.environ["AWS_ENDPOINT_URL"],
    region=os.environ["AWS_DEFAULT_REGION"],
    allow_bucket_creation=True,
)
files.create_dir("examples")
table = pa.table({"fruit": ["figs", "dates"], "count": [3, 5]})
pq.write_table(table, "examples/pyarrow/fruit.parquet", filesystem=files)
print(pq.read_table("examples/pyarrow/fruit.parquet", filesystem=files, columns=["fruit"]))
