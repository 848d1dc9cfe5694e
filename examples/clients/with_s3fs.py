"""s3fs: files in a bucket. pandas, Dask and others use it to open `s3://…`."""

import s3fs

files = s3fs.S3FileSystem()  # endpoint and key from the environment
if not files.exists("examples"):
    files.mkdir("examples")
with files.open("examples/s3fs/fruit.txt", "w") as file:
    file.write("figs and dates\n")
with files.open("examples/s3fs/fruit.txt") as file:
    print(file.read(), end="")
print(files.ls("examples/s3fs"))
