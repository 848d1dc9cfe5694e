"""minio-py."""

from __future__ import annotations

import io
from datetime import timedelta
from pathlib import Path
from urllib.request import Request, urlopen

import pytest
from minio import Minio, S3Error
from minio.commonconfig import REPLACE, ComposeSource, CopySource
from minio.deleteobjects import DeleteObject

from lakebed.base.units import KIB, MIB
from tests.clients.names import HOSTILE, but, called
from tests.clients.nodes import Many, S3Client, check_sum
from tests.s3.endpoint import Endpoint
from tests.seglake.lakes import body


@pytest.fixture
def minio(endpoint: Endpoint) -> Minio:
    return Minio(
        endpoint=f"127.0.0.1:{endpoint.port}",
        access_key=endpoint.access_key,
        secret_key=endpoint.secret_key,
        secure=False,
    )


def put(minio: Minio, bucket: str, name: str, data: bytes) -> None:
    minio.put_object(bucket_name=bucket, object_name=name, data=io.BytesIO(data), length=len(data))


def read(minio: Minio, bucket: str, name: str, *, offset: int = 0, length: int = 0) -> bytes:
    answer = minio.get_object(bucket_name=bucket, object_name=name, offset=offset, length=length)
    try:
        return answer.read()
    finally:
        answer.close()
        answer.release_conn()


def listed(minio: Minio, bucket: str, **given: object) -> list[str]:
    found = minio.list_objects(bucket_name=bucket, **given)  # type: ignore[arg-type]
    return [str(entry.object_name) for entry in found]


def test_an_object_comes_back_with_all_that_was_given(minio: Minio, bucket: str) -> None:
    data = body(100 * KIB)
    written = minio.put_object(
        bucket_name=bucket,
        object_name="key",
        data=io.BytesIO(data),
        length=len(data),
        content_type="a/b",
        metadata={"colour": "blue", "x-amz-meta-spaces": "a b", "Cache-Control": "no-store"},
    )
    assert read(minio, bucket, "key") == data
    assert read(minio, bucket, "key", offset=10, length=20) == data[10:30]
    assert read(minio, bucket, "key", offset=len(data) - 5) == data[-5:]
    found = minio.stat_object(bucket_name=bucket, object_name="key")
    assert (found.size, found.content_type, found.etag) == (len(data), "a/b", written.etag)
    assert found.version_id == written.version_id
    assert found.metadata is not None
    assert found.metadata["x-amz-meta-colour"] == "blue"
    assert found.metadata["x-amz-meta-spaces"] == "a b"
    assert found.metadata["Cache-Control"] == "no-store"


def test_files_and_streams_go_in_parts(
    minio: Minio, s3: S3Client, bucket: str, tmp_path: Path
) -> None:
    data = body(11 * MIB)
    (tmp_path / "file").write_bytes(data)
    minio.fput_object(
        bucket_name=bucket, object_name="file", file_path=str(tmp_path / "file"), part_size=5 * MIB
    )
    minio.put_object(
        bucket_name=bucket,
        object_name="stream",
        data=io.BytesIO(data),
        length=-1,
        part_size=5 * MIB,
    )
    for name in ("file", "stream"):
        check_sum(s3, bucket, name, data)
        assert s3.head_object(Bucket=bucket, Key=name)["ETag"].endswith('-3"')
        assert (
            read(minio, bucket, name, offset=5 * MIB - 10, length=20)
            == data[5 * MIB - 10 : 5 * MIB + 10]
        )
        back = tmp_path / "back"
        minio.fget_object(bucket_name=bucket, object_name=name, file_path=str(back))
        assert back.read_bytes() == data


def test_copies_keep_or_replace_the_metadata(minio: Minio, s3: S3Client, bucket: str) -> None:
    s3.put_object(Bucket=bucket, Key="a b+", Body=b"data", Metadata={"x": "1"})
    source = CopySource(bucket_name=bucket, object_name="a b+")
    minio.copy_object(bucket_name=bucket, object_name="kept", source=source)
    minio.copy_object(
        bucket_name=bucket,
        object_name="replaced",
        source=source,
        metadata={"y": "2"},
        metadata_directive=REPLACE,
    )
    span = CopySource(bucket_name=bucket, object_name="a b+", offset=1, length=2)
    minio.copy_object(bucket_name=bucket, object_name="span", source=span)
    assert s3.head_object(Bucket=bucket, Key="kept")["Metadata"] == {"x": "1"}
    assert s3.head_object(Bucket=bucket, Key="replaced")["Metadata"] == {"y": "2"}
    assert read(minio, bucket, "span") == b"at"


def test_objects_are_composed_of_others(minio: Minio, bucket: str) -> None:
    first, second = body(5 * MIB), body(1000, seed=1)
    put(minio, bucket, "first", first)
    put(minio, bucket, "second", second)
    sources = [
        ComposeSource(bucket_name=bucket, object_name="first"),
        ComposeSource(bucket_name=bucket, object_name="second", offset=10, length=500),
    ]
    minio.compose_object(bucket_name=bucket, object_name="both", sources=sources)
    assert read(minio, bucket, "both") == first + second[10:510]


def test_appending_is_refused_and_changes_nothing(minio: Minio, bucket: str) -> None:
    """An extension of MinIO: a PUT with a place to write at must not become a plain one."""
    put(minio, bucket, "key", b"first")
    with pytest.raises(S3Error) as refused:
        minio.append_object(
            bucket_name=bucket, object_name="key", data=io.BytesIO(b"more"), length=4
        )
    assert refused.value.code == "NotImplemented"
    assert read(minio, bucket, "key") == b"first"


def test_listings_have_folders(minio: Minio, bucket: str) -> None:
    names = ["a/1", "a/2", "b/1", "c", "d", "e"]
    for name in names:
        put(minio, bucket, name, b"")
    assert sorted(listed(minio, bucket)) == ["a/", "b/", "c", "d", "e"]
    assert listed(minio, bucket, recursive=True) == names
    assert listed(minio, bucket, prefix="a/", start_after="a/1") == ["a/2"]


def test_listings_turn_pages(minio: Minio, many: Many) -> None:
    for old in (False, True):
        assert listed(minio, many.bucket, use_api_v1=old) == many.folders
        assert listed(minio, many.bucket, use_api_v1=old, recursive=True) == many.names


def test_many_are_removed_at_once(minio: Minio, bucket: str) -> None:
    names = [f"{number:03}" for number in range(20)]
    for name in names:
        put(minio, bucket, name, b"x")
    doomed = [DeleteObject(name) for name in names[1:]]
    assert list(minio.remove_objects(bucket_name=bucket, delete_object_list=doomed)) == []
    assert listed(minio, bucket) == ["000"]
    minio.remove_object(bucket_name=bucket, object_name="000")
    assert listed(minio, bucket) == []


def test_presigned_urls_get_and_put(minio: Minio, bucket: str) -> None:
    name, minute = "a b/ü+%2F", timedelta(minutes=1)
    url = minio.presigned_put_object(bucket_name=bucket, object_name=name, expires=minute)
    with urlopen(Request(url, data=b"shared", method="PUT")) as answer:  # noqa: S310
        assert answer.status == 200
    url = minio.presigned_get_object(bucket_name=bucket, object_name=name, expires=minute)
    with urlopen(url) as answer:  # noqa: S310
        assert answer.read() == b"shared"


def test_versions_are_as_the_bucket_has_them(
    minio: Minio, bucket: str, request: pytest.FixtureRequest
) -> None:
    put(minio, bucket, "key", b"1")
    put(minio, bucket, "key", b"22")
    minio.remove_object(bucket_name=bucket, object_name="key")
    found = list(minio.list_objects(bucket_name=bucket, include_version=True))
    is_versioned = "unversioned" not in request.node.name
    status = minio.get_bucket_versioning(bucket_name=bucket).status
    assert (status == "Enabled") is is_versioned
    expected = [(False, 2), (False, 1), (True, None)] if is_versioned else []
    assert [(entry.is_delete_marker, entry.size) for entry in found] == expected
    if is_versioned:
        old = minio.get_object(
            bucket_name=bucket, object_name="key", version_id=found[1].version_id
        )
        assert old.read() == b"1"
        old.close()


REFUSED = ("dots inside", "dots first", "dot")


def test_names_it_refuses_do_not_get_here(minio: Minio, bucket: str) -> None:
    for what in REFUSED:
        with pytest.raises(ValueError, match="path segment is not supported"):
            put(minio, bucket, HOSTILE[what], b"")


@pytest.mark.parametrize("name", but(*REFUSED), ids=called)
def test_the_name_round_trips(minio: Minio, bucket: str, name: str) -> None:
    put(minio, bucket, name, name.encode())
    assert listed(minio, bucket, recursive=True) == [name]
    assert read(minio, bucket, name) == name.encode()
    copy = f"C{name[1:]}"
    source = CopySource(bucket_name=bucket, object_name=name)
    minio.copy_object(bucket_name=bucket, object_name=copy, source=source)
    assert read(minio, bucket, copy) == name.encode()
    minio.remove_object(bucket_name=bucket, object_name=name)
    assert listed(minio, bucket, recursive=True) == [copy]
    if "\r" in copy:  # it writes the character as it is, and XML makes a line feed of that
        minio.remove_object(bucket_name=bucket, object_name=copy)
    doomed = [DeleteObject(copy)]
    assert list(minio.remove_objects(bucket_name=bucket, delete_object_list=doomed)) == []
    assert listed(minio, bucket, recursive=True) == []
