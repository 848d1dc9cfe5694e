"""pyarrow's S3FileSystem, on the C++ SDK: files, and tables in Parquet."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from pyarrow import fs

from lakebed.base.units import KIB, MIB
from tests.clients.names import HOSTILE, but, called, contents
from tests.clients.nodes import Many, S3Client, check_sum
from tests.s3.endpoint import Endpoint
from tests.seglake.lakes import body


@pytest.fixture
def files(endpoint: Endpoint) -> fs.S3FileSystem:
    return fs.S3FileSystem(
        access_key=endpoint.access_key,
        secret_key=endpoint.secret_key,
        endpoint_override=f"127.0.0.1:{endpoint.port}",
        scheme="http",
    )


def write(files: fs.S3FileSystem, path: str, data: bytes) -> None:
    with files.open_output_stream(path) as stream:
        stream.write(data)


def read(files: fs.S3FileSystem, path: str) -> bytes:
    with files.open_input_stream(path) as stream:
        return bytes(stream.read())


def test_a_file_is_written_and_read_anywhere(files: fs.S3FileSystem, bucket: str) -> None:
    data = body(100 * KIB)
    write(files, f"{bucket}/a b/ü+", data)
    assert read(files, f"{bucket}/a b/ü+") == data
    with files.open_input_file(f"{bucket}/a b/ü+") as file:
        assert file.size() == len(data)
        file.seek(50_000)
        assert file.read(100) == data[50_000:50_100]
        assert file.read_at(10, 99_990) == data[99_990:100_000]


def test_metadata_are_given_with_the_stream(
    files: fs.S3FileSystem, s3: S3Client, bucket: str
) -> None:
    given = {"Content-Type": "a/b", "Cache-Control": "no-store"}
    with files.open_output_stream(f"{bucket}/key", metadata=given) as stream:
        stream.write(b"x")
    head = s3.head_object(Bucket=bucket, Key="key")
    assert (head["ContentType"], head["CacheControl"]) == ("a/b", "no-store")


def test_a_large_file_goes_in_parts(files: fs.S3FileSystem, s3: S3Client, bucket: str) -> None:
    data = body(23 * MIB)
    write(files, f"{bucket}/large", data)
    assert s3.head_object(Bucket=bucket, Key="large")["ETag"].endswith('-3"')
    check_sum(s3, bucket, "large", data)
    assert read(files, f"{bucket}/large") == data


def test_folders_are_listed_copied_and_deleted(files: fs.S3FileSystem, bucket: str) -> None:
    files.create_dir(f"{bucket}/empty/deep")
    for name in ("a/1", "a/2", "b/1", "c"):
        write(files, f"{bucket}/{name}", name.encode())
    found = files.get_file_info(fs.FileSelector(bucket))
    assert sorted((entry.base_name, entry.type) for entry in found) == [
        ("a", fs.FileType.Directory),
        ("b", fs.FileType.Directory),
        ("c", fs.FileType.File),
        ("empty", fs.FileType.Directory),
    ]
    assert files.get_file_info(f"{bucket}/a").type == fs.FileType.Directory
    assert files.get_file_info(f"{bucket}/none").type == fs.FileType.NotFound
    files.copy_file(f"{bucket}/c", f"{bucket}/a/copied")
    files.move(f"{bucket}/b/1", f"{bucket}/a/moved")
    assert read(files, f"{bucket}/a/copied") == b"c"
    files.delete_dir(f"{bucket}/a")
    files.delete_file(f"{bucket}/c")
    left = files.get_file_info(fs.FileSelector(bucket, recursive=True))
    assert [entry.path for entry in left if entry.type == fs.FileType.File] == []


def test_listings_turn_pages(files: fs.S3FileSystem, many: Many) -> None:
    everything = files.get_file_info(fs.FileSelector(many.bucket, recursive=True))
    found = [entry for entry in everything if entry.type == fs.FileType.File]
    assert sorted(entry.path for entry in found) == [f"{many.bucket}/{name}" for name in many.names]
    folders = files.get_file_info(fs.FileSelector(many.bucket))
    assert sorted(f"{entry.base_name}/" for entry in folders) == many.folders


def test_buckets_are_made_and_deleted(endpoint: Endpoint, bucket: str) -> None:
    files = fs.S3FileSystem(
        access_key=endpoint.access_key,
        secret_key=endpoint.secret_key,
        endpoint_override=f"127.0.0.1:{endpoint.port}",
        scheme="http",
        allow_bucket_creation=True,
        allow_bucket_deletion=True,
    )
    files.create_dir(f"{bucket}-more")
    assert f"{bucket}-more" in [entry.path for entry in files.get_file_info(fs.FileSelector(""))]
    files.delete_dir(f"{bucket}-more")
    assert files.get_file_info(f"{bucket}-more").type == fs.FileType.NotFound


def test_a_table_in_parquet_comes_back(files: fs.S3FileSystem, bucket: str) -> None:
    count = 50_000
    table = pa.table(
        {
            "number": pa.array(range(count), pa.int64()),
            "text": pa.array([f"row {number}" for number in range(count)]),
            "part": pa.array([number % 3 for number in range(count)], pa.int8()),
        }
    )
    pq.write_table(table, f"{bucket}/one.parquet", filesystem=files, row_group_size=10_000)
    assert pq.read_table(f"{bucket}/one.parquet", filesystem=files).equals(table)
    with pq.ParquetFile(f"{bucket}/one.parquet", filesystem=files) as one:
        assert one.read_row_group(3, columns=["number"])["number"][0].as_py() == 30_000
    ds.write_dataset(
        table, f"{bucket}/parts", format="parquet", partitioning=["part"], filesystem=files
    )
    parts = ds.dataset(f"{bucket}/parts", format="parquet", partitioning=["part"], filesystem=files)
    chosen = parts.to_table(filter=(ds.field("part") == 1) & (ds.field("number") < 100))
    assert sorted(chosen["number"].to_pylist()) == list(range(1, 100, 3))


REFUSED = ("two slashes", "leading slash", "trailing slash")
RESOLVED = ("dots inside", "dots first", "dot")  # by its HTTP library, after it has signed


def test_names_it_refuses_do_not_get_here(
    files: fs.S3FileSystem, s3: S3Client, bucket: str
) -> None:
    for what in REFUSED:
        with pytest.raises((OSError, ValueError), match=r"Empty path component|Not a regular"):
            write(files, f"{bucket}/{HOSTILE[what]}", b"")
    for what in RESOLVED:
        with pytest.raises(OSError, match="SIGNATURE_DOES_NOT_MATCH"):
            write(files, f"{bucket}/{HOSTILE[what]}", b"")
    assert contents(s3, bucket) == {}


@pytest.mark.parametrize("name", but(*REFUSED, *RESOLVED), ids=called)
def test_the_name_round_trips(files: fs.S3FileSystem, s3: S3Client, bucket: str, name: str) -> None:
    write(files, f"{bucket}/{name}", name.encode())
    assert contents(s3, bucket) == {name: name.encode()}
    found = files.get_file_info(fs.FileSelector(bucket, recursive=True))
    assert f"{bucket}/{name}" in [entry.path for entry in found]
    assert read(files, f"{bucket}/{name}") == name.encode()
    copy = f"C{name[1:]}"
    files.copy_file(f"{bucket}/{name}", f"{bucket}/{copy}")
    assert read(files, f"{bucket}/{copy}") == name.encode()
    files.delete_file(f"{bucket}/{name}")
    assert copy in contents(s3, bucket)
