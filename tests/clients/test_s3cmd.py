"""s3cmd."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest

from lakebed.base.units import KIB, MIB
from tests.clients.names import but, contents, fill, short
from tests.clients.nodes import Many, S3Client, check_sum
from tests.clients.programs import Failed, Program
from tests.s3.endpoint import Endpoint
from tests.seglake.lakes import body


@pytest.fixture
def s3cmd(endpoint: Endpoint, tmp_path: Path) -> Program:
    """With the answers that `s3cmd --configure` asks for."""
    place = f"127.0.0.1:{endpoint.port}"
    answers = {
        "access_key": endpoint.access_key,
        "secret_key": endpoint.secret_key,
        "host_base": place,
        "host_bucket": place,
        "use_https": False,
    }
    lines = [f"{name} = {value}" for name, value in answers.items()]
    (tmp_path / ".s3cfg").write_text("\n".join(["[default]", *lines, ""]))
    return Program("s3cmd", home=tmp_path)


def listed(s3cmd: Program, place: str, *arguments: str) -> list[str]:
    lines = s3cmd("ls", place, *arguments).splitlines()
    return [line[line.index("s3://") :] for line in lines]


def test_buckets_are_made_listed_and_removed(s3cmd: Program, bucket: str) -> None:
    name = f"s3://{bucket}-more"
    s3cmd("mb", name)
    assert name in listed(s3cmd, "s3://")
    s3cmd("rb", name)
    assert name not in listed(s3cmd, "s3://")
    assert "Location:" in s3cmd("info", f"s3://{bucket}")


def test_a_file_goes_up_and_comes_back(
    s3cmd: Program, s3: S3Client, bucket: str, tmp_path: Path
) -> None:
    data = body(100 * KIB)
    (tmp_path / "page.html").write_bytes(data)
    s3cmd("put", "page.html", f"s3://{bucket}/", "--add-header=x-amz-meta-colour: blue")
    head = s3.head_object(Bucket=bucket, Key="page.html")
    assert head["Metadata"]["colour"] == "blue"
    assert "md5:" in head["Metadata"]["s3cmd-attrs"]
    check_sum(s3, bucket, "page.html", data)
    said = s3cmd("info", f"s3://{bucket}/page.html")
    assert head["ETag"].strip('"') in said
    assert str(len(data)) in said
    s3cmd("get", f"s3://{bucket}/page.html", "back")
    assert (tmp_path / "back").read_bytes() == data


def test_a_download_is_continued_where_it_ended(
    s3cmd: Program, s3: S3Client, bucket: str, tmp_path: Path
) -> None:
    data = body(100 * KIB)
    s3.put_object(Bucket=bucket, Key="key", Body=data)
    (tmp_path / "back").write_bytes(data[:30_000])
    s3cmd("get", "--continue", f"s3://{bucket}/key", "back")
    assert (tmp_path / "back").read_bytes() == data


def test_a_large_file_goes_in_parts_and_is_continued(
    s3cmd: Program, s3: S3Client, bucket: str, tmp_path: Path
) -> None:
    data = body(11 * MIB)
    (tmp_path / "large").write_bytes(data)
    upload = s3.create_multipart_upload(Bucket=bucket, Key="large")["UploadId"]
    first = {"Bucket": bucket, "Key": "large", "UploadId": upload, "PartNumber": 1}
    s3.upload_part(**first, Body=data[: 5 * MIB])
    said = s3cmd("multipart", f"s3://{bucket}")
    assert upload in said
    assert "5242880" in s3cmd("listmp", f"s3://{bucket}/large", upload)
    s3cmd("put", "large", f"s3://{bucket}/large", "--multipart-chunk-size-mb=5", "--continue-put")
    got = s3.get_object(Bucket=bucket, Key="large")
    assert got["ETag"].endswith('-3"')
    assert got["Body"].read() == data
    assert "Uploads" not in s3.list_multipart_uploads(Bucket=bucket)


def test_an_upload_is_aborted(s3cmd: Program, s3: S3Client, bucket: str) -> None:
    upload = s3.create_multipart_upload(Bucket=bucket, Key="a b")["UploadId"]
    s3cmd("abortmp", f"s3://{bucket}/a b", upload)
    assert "Uploads" not in s3.list_multipart_uploads(Bucket=bucket)


def test_sync_carries_what_changed_and_no_more(
    s3cmd: Program, s3: S3Client, bucket: str, tmp_path: Path
) -> None:
    folder = tmp_path / "folder"
    (folder / "deep").mkdir(parents=True)
    for name in ("a", "b b", "deep/ü+", "deep/d%2F"):
        (folder / name).write_text(name)
    assert s3cmd("sync", "folder/", f"s3://{bucket}/in/").count("upload:") == 4
    assert s3cmd("sync", "folder/", f"s3://{bucket}/in/").count("upload:") == 0
    (folder / "a").write_text("changed")
    (folder / "b b").unlink()
    said = s3cmd("sync", "--delete-removed", "folder/", f"s3://{bucket}/in/")
    assert (said.count("upload:"), said.count("delete:")) == (1, 1)
    s3cmd("sync", f"s3://{bucket}/in/", f"s3://{bucket}/out/")
    s3cmd("sync", f"s3://{bucket}/out/", "back/")
    found = {
        str(path.relative_to(tmp_path / "back")): path.read_text()
        for path in (tmp_path / "back").rglob("*")
        if path.is_file()
    }
    assert found == {"a": "changed", "deep/ü+": "deep/ü+", "deep/d%2F": "deep/d%2F"}
    s3cmd("del", "--recursive", f"s3://{bucket}/in/")
    assert sorted(contents(s3, bucket)) == ["out/a", "out/deep/d%2F", "out/deep/ü+"]


def test_copies_keep_and_modify_the_metadata(s3cmd: Program, s3: S3Client, bucket: str) -> None:
    s3.put_object(Bucket=bucket, Key="a b+", Body=b"data", Metadata={"x": "1"})
    s3cmd("cp", f"s3://{bucket}/a b+", f"s3://{bucket}/copy")
    s3cmd("modify", f"s3://{bucket}/copy", "--add-header=x-amz-meta-y: 2")
    assert s3.head_object(Bucket=bucket, Key="copy")["Metadata"]["y"] == "2"
    s3cmd("mv", f"s3://{bucket}/a b+", f"s3://{bucket}/moved")
    assert contents(s3, bucket) == {"copy": b"data", "moved": b"data"}
    assert s3.head_object(Bucket=bucket, Key="moved")["Metadata"]["x"] == "1"


def test_listings_have_folders(s3cmd: Program, s3: S3Client, bucket: str) -> None:
    fill(s3, bucket, ["a/1", "a/2", "b/1", "c", "d"])
    place = f"s3://{bucket}/"
    assert listed(s3cmd, place) == [place + name for name in ("a/", "b/", "c", "d")]
    assert listed(s3cmd, place + "a/") == [place + "a/1", place + "a/2"]
    assert listed(s3cmd, place, "--recursive", "--limit=3") == [
        place + name for name in ("a/1", "a/2", "b/1")
    ]


def test_listings_turn_pages(s3cmd: Program, many: Many) -> None:
    place = f"s3://{many.bucket}/"
    assert listed(s3cmd, place) == [place + name for name in many.folders]
    assert listed(s3cmd, place, "--recursive") == [place + name for name in many.names]


def test_a_presigned_url_is_of_version_2_and_refused(
    s3cmd: Program, s3: S3Client, bucket: str
) -> None:
    """s3cmd knows no other for `signurl`."""
    s3.put_object(Bucket=bucket, Key="key", Body=b"data")
    url = s3cmd("signurl", f"s3://{bucket}/key", "+60").strip()
    with pytest.raises(HTTPError) as refused:
        urlopen(url)  # noqa: S310
    assert b"Please use AWS4-HMAC-SHA256" in refused.value.read()


def test_what_is_not_there_is_said(s3cmd: Program, bucket: str) -> None:
    with pytest.raises(Failed, match="does not exist"):
        s3cmd("get", f"s3://{bucket}/none", "back")


# s3cmd ends a name at a line feed, and asks for listings that cannot say control characters.
NAMES = but("line ends", "controls")
# As files, these lead elsewhere.
AS_FILES = [name for name in short(NAMES) if not set(name.split("/")) & {"", ".", ".."}]


def test_hostile_names_round_trip(
    s3cmd: Program, s3: S3Client, new_bucket: Callable[[], str], tmp_path: Path
) -> None:
    source, copy, files, back = (new_bucket() for _ in range(4))
    objects = fill(s3, source, NAMES)
    s3cmd("cp", "--recursive", f"s3://{source}/", f"s3://{copy}/")
    assert contents(s3, copy) == objects
    s3cmd("del", "--recursive", "--force", f"s3://{copy}/")
    assert contents(s3, copy) == {}
    objects = fill(s3, files, AS_FILES)
    (tmp_path / "files").mkdir()
    s3cmd("get", "--recursive", f"s3://{files}/", "files/")
    s3cmd("put", "--recursive", "files/", f"s3://{back}/")
    assert contents(s3, back) == objects
