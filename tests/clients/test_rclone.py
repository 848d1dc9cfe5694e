"""rclone: folders are kept alike, streams are taken, and copies stay on the server."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from lakebed.base.units import KIB, MIB
from tests.clients.names import but, contents, fill, short
from tests.clients.nodes import S3Client, check_sum
from tests.clients.programs import Failed, Program
from tests.s3.endpoint import Endpoint
from tests.seglake.lakes import body


@pytest.fixture
def rclone(endpoint: Endpoint, tmp_path: Path) -> Program:
    """A remote `lake` of the provider that stands for all unnamed ones."""
    told = {
        "RCLONE_CONFIG_LAKE_TYPE": "s3",
        "RCLONE_CONFIG_LAKE_PROVIDER": "Other",
        "RCLONE_CONFIG_LAKE_ACCESS_KEY_ID": endpoint.access_key,
        "RCLONE_CONFIG_LAKE_SECRET_ACCESS_KEY": endpoint.secret_key,
        "RCLONE_CONFIG_LAKE_ENDPOINT": endpoint.url,
    }
    return Program("rclone", home=tmp_path, environment=told)


def filled(folder: Path, count: int) -> Path:
    (folder / "deep").mkdir(parents=True)
    for number in range(count):
        place = folder / ("deep" if number % 2 else "") / f"{number} ü+%2F&<"
        place.write_bytes(body(number * 100, seed=number))
    return folder


def keys(s3: S3Client, bucket: str) -> list[str]:
    found = s3.list_objects_v2(Bucket=bucket)
    return [entry["Key"] for entry in found.get("Contents", [])]


def test_a_folder_is_kept_alike_and_checked(
    rclone: Program, s3: S3Client, bucket: str, tmp_path: Path
) -> None:
    folder = filled(tmp_path / "folder", 10)
    rclone("sync", "folder", f"lake:{bucket}/in")
    rclone("check", "folder", f"lake:{bucket}/in", "--download")
    (folder / "0 ü+%2F&<").unlink()
    (folder / "2 ü+%2F&<").write_bytes(b"changed")
    with pytest.raises(Failed, match="2 differences found"):
        rclone("check", "folder", f"lake:{bucket}/in")
    rclone("sync", "folder", f"lake:{bucket}/in")
    rclone("check", "folder", f"lake:{bucket}/in")
    rclone("sync", f"lake:{bucket}/in", "back")
    rclone("check", "folder", "back")
    assert len(keys(s3, bucket)) == 9


def test_the_time_of_a_file_is_kept_in_its_metadata(
    rclone: Program, s3: S3Client, bucket: str, tmp_path: Path
) -> None:
    (tmp_path / "file").write_bytes(b"x")
    rclone("copy", "file", f"lake:{bucket}", "--metadata-set", "colour=blue", "--metadata")
    metadata = s3.head_object(Bucket=bucket, Key="file")["Metadata"]
    assert float(metadata["mtime"]) == pytest.approx((tmp_path / "file").stat().st_mtime)
    assert metadata["colour"] == "blue"
    rclone("touch", f"lake:{bucket}/file", "--timestamp", "2001-02-03T04:05:06")
    assert rclone("lsf", f"lake:{bucket}", "--format", "tp").startswith("2001-02-03")


def test_copies_stay_on_the_server(rclone: Program, s3: S3Client, bucket: str) -> None:
    data = body(100 * KIB)
    s3.put_object(Bucket=bucket, Key="a b/+", Body=data, Metadata={"x": "1"})
    said = rclone.raw(
        "copyto", f"lake:{bucket}/a b/+", f"lake:{bucket}/copy", "-v", "--log-file=/dev/stdout"
    )
    assert b"Copied (server-side copy)" in said
    rclone("moveto", f"lake:{bucket}/a b/+", f"lake:{bucket}/moved")
    assert keys(s3, bucket) == ["copy", "moved"]
    got = s3.get_object(Bucket=bucket, Key="moved")
    assert (got["Body"].read(), got["Metadata"]) == (data, {"x": "1"})


def test_a_stream_goes_up_in_parts(rclone: Program, s3: S3Client, bucket: str) -> None:
    data = body(11 * MIB)
    rclone("rcat", f"lake:{bucket}/stream", stdin=data)
    assert s3.head_object(Bucket=bucket, Key="stream")["ETag"].endswith('-3"')
    check_sum(s3, bucket, "stream", data)
    assert rclone.raw("cat", f"lake:{bucket}/stream") == data
    span = rclone.raw("cat", f"lake:{bucket}/stream", "--offset", "6000000", "--count", "1000")
    assert span == data[6_000_000:6_001_000]


def test_parts_are_copied_on_the_server(rclone: Program, s3: S3Client, bucket: str) -> None:
    data = body(11 * MIB)
    s3.put_object(Bucket=bucket, Key="large", Body=data)
    cut = ["--s3-copy-cutoff", "5Mi", "--s3-chunk-size", "5Mi"]
    rclone("copyto", f"lake:{bucket}/large", f"lake:{bucket}/copy", *cut)
    assert s3.head_object(Bucket=bucket, Key="copy")["ETag"].endswith('-3"')
    rclone("check", f"lake:{bucket}", f"lake:{bucket}", "--download", "--include", "copy")
    assert s3.get_object(Bucket=bucket, Key="copy")["Body"].read() == data


def test_a_large_file_is_uploaded_in_parts_with_its_digest(
    rclone: Program, s3: S3Client, bucket: str, tmp_path: Path
) -> None:
    (tmp_path / "large").write_bytes(body(11 * MIB))
    rclone("copy", "large", f"lake:{bucket}", "--s3-upload-cutoff", "5Mi")
    head = s3.head_object(Bucket=bucket, Key="large")
    assert head["ETag"].endswith('-3"')
    assert "md5chksum" in head["Metadata"]
    rclone("check", ".", f"lake:{bucket}", "--include", "large")


def test_listings_have_folders_and_pages(rclone: Program, s3: S3Client, bucket: str) -> None:
    for name in ("a/1", "a/2", "b/1", "c", "d", "e"):
        s3.put_object(Bucket=bucket, Key=name, Body=b"12")
    paged = ["--s3-list-chunk", "2"]
    assert rclone("lsf", f"lake:{bucket}", *paged).split() == ["a/", "b/", "c", "d", "e"]
    found = json.loads(rclone("lsjson", "-R", "--files-only", f"lake:{bucket}", *paged))
    assert sorted(entry["Path"] for entry in found) == ["a/1", "a/2", "b/1", "c", "d", "e"]
    size = json.loads(rclone("size", "--json", f"lake:{bucket}", *paged))
    assert (size["count"], size["bytes"]) == (6, 12)


def test_buckets_are_made_and_purged(rclone: Program, s3: S3Client, bucket: str) -> None:
    rclone("mkdir", f"lake:{bucket}-more")
    assert f"{bucket}-more/" in rclone("lsf", "lake:").split()
    rclone("rmdir", f"lake:{bucket}-more")
    assert f"{bucket}-more/" not in rclone("lsf", "lake:").split()


# What rclone cannot say: an empty part of a path, and a name that ends with a slash is a folder
# to it. It writes `.` and `..` as full-width characters, and takes them back from those.
NAMES = but("two slashes", "leading slash", "trailing slash", "dots inside", "dots first", "dot")


def test_hostile_names_round_trip(
    rclone: Program, s3: S3Client, bucket: str, new_bucket: Callable[[], str]
) -> None:
    objects = fill(s3, bucket, NAMES)
    copy, back = new_bucket(), new_bucket()
    apart = "--no-unicode-normalization"  # or it takes both forms of a name for one
    rclone("copy", f"lake:{bucket}", f"lake:{copy}", apart)
    rclone("check", f"lake:{bucket}", f"lake:{copy}", apart)
    assert contents(s3, copy) == objects
    rclone("delete", f"lake:{copy}")
    assert keys(s3, copy) == []
    for name in set(NAMES) - set(short(NAMES)):
        assert rclone.raw("cat", f"lake:{bucket}/{name}") == name.encode()
        rclone("deletefile", f"lake:{bucket}/{name}")
        rclone("rcat", f"lake:{back}/{name}", stdin=name.encode())
    rclone("copy", f"lake:{bucket}", "files", apart)
    rclone("copy", "files", f"lake:{back}", apart)
    assert contents(s3, back) == objects
