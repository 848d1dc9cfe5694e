"""The aws command: `aws s3` for files and folders, `aws s3api` for the verbs."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest

from lakebed.base.units import KIB, MIB
from tests.clients.names import HOSTILE, but, contents, fill, short
from tests.clients.nodes import S3Client
from tests.clients.programs import Failed, ForkedAws, Forks, Program
from tests.s3.endpoint import Endpoint
from tests.seglake.lakes import body


@pytest.fixture(scope="module")
def forks() -> Iterator[Forks]:
    with Forks() as started:
        yield started


@pytest.fixture
def told(endpoint: Endpoint) -> dict[str, str]:
    """Where and who, and neither a region nor how to sign."""
    return {
        "AWS_ACCESS_KEY_ID": endpoint.access_key,
        "AWS_SECRET_ACCESS_KEY": endpoint.secret_key,
        "AWS_ENDPOINT_URL": endpoint.url,
    }


@pytest.fixture
def aws(forks: Forks, told: dict[str, str], tmp_path: Path) -> Program:
    return ForkedAws(forks, home=tmp_path, environment=told)


def api(aws: Program, verb: str, bucket: str, *arguments: str) -> Any:
    written = aws("s3api", verb, "--bucket", bucket, "--output", "json", *arguments)
    return json.loads(written or "{}")


def test_buckets_are_made_listed_and_removed(aws: Program, bucket: str) -> None:
    name = f"{bucket}-more"
    aws("s3", "mb", f"s3://{name}")
    listed = [line.split()[-1] for line in aws("s3", "ls").splitlines()]
    assert {bucket, name} <= set(listed)
    aws("s3", "cp", "-", f"s3://{name}/a", stdin=b"x")
    with pytest.raises(Failed, match="BucketNotEmpty"):
        aws("s3", "rb", f"s3://{name}")
    aws("s3", "rb", f"s3://{bucket}")
    assert bucket not in aws("s3", "ls").split()


def test_a_file_goes_up_and_comes_back_with_its_type(
    aws: Program, s3: S3Client, bucket: str, tmp_path: Path
) -> None:
    sent = tmp_path / "page.html"
    sent.write_bytes(body(100 * KIB))
    aws("s3", "cp", "page.html", f"s3://{bucket}/", "--metadata", "colour=blue")
    head = s3.head_object(Bucket=bucket, Key="page.html", ChecksumMode="ENABLED")
    assert (head["ContentType"], head["Metadata"]) == ("text/html", {"colour": "blue"})
    assert "ChecksumCRC64NVME" in head or "ChecksumCRC32" in head
    aws("s3", "cp", f"s3://{bucket}/page.html", "back")
    assert (tmp_path / "back").read_bytes() == sent.read_bytes()


def test_a_large_file_goes_in_parts_both_ways(
    aws: Program, s3: S3Client, bucket: str, tmp_path: Path
) -> None:
    data = body(17 * MIB)
    (tmp_path / "large").write_bytes(data)
    aws("s3", "cp", "large", f"s3://{bucket}/large")
    assert s3.head_object(Bucket=bucket, Key="large")["ETag"].endswith('-3"')
    aws("s3", "cp", f"s3://{bucket}/large", f"s3://{bucket}/copy")
    aws("s3", "cp", f"s3://{bucket}/copy", "back")
    assert (tmp_path / "back").read_bytes() == data


def test_streams_go_in_and_out(aws: Program, bucket: str) -> None:
    data = body(300 * KIB)
    aws("s3", "cp", "-", f"s3://{bucket}/stream", stdin=data)
    assert aws.raw("s3", "cp", f"s3://{bucket}/stream", "-") == data


def test_sync_carries_what_changed_and_no_more(
    aws: Program, s3: S3Client, bucket: str, tmp_path: Path
) -> None:
    folder = tmp_path / "folder"
    (folder / "deep").mkdir(parents=True)
    for name in ("a", "b b", "deep/ü+", "deep/d%2F"):
        (folder / name).write_text(name)
    assert aws("s3", "sync", "folder", f"s3://{bucket}/in", "--no-progress").count("upload:") == 4
    assert "upload:" not in aws("s3", "sync", "folder", f"s3://{bucket}/in", "--no-progress")
    (folder / "a").write_text("changed")
    (folder / "b b").unlink()
    said = aws("s3", "sync", "folder", f"s3://{bucket}/in", "--delete", "--no-progress")
    assert (said.count("upload:"), said.count("delete:")) == (1, 1)
    aws("s3", "sync", f"s3://{bucket}/in", f"s3://{bucket}/out")
    aws("s3", "sync", f"s3://{bucket}/out", "back")
    found = {
        str(path.relative_to(tmp_path / "back")): path.read_text()
        for path in (tmp_path / "back").rglob("*")
        if path.is_file()
    }
    assert found == {"a": "changed", "deep/ü+": "deep/ü+", "deep/d%2F": "deep/d%2F"}
    aws("s3", "mv", f"s3://{bucket}/out/a", f"s3://{bucket}/moved")
    aws("s3", "rm", f"s3://{bucket}/in", "--recursive")
    left = s3.list_objects_v2(Bucket=bucket)["Contents"]
    assert [entry["Key"] for entry in left] == ["moved", "out/deep/d%2F", "out/deep/ü+"]


def test_listings_have_folders_and_pages(aws: Program, s3: S3Client, bucket: str) -> None:
    for name in ("a/1", "a/2", "b/1", "c", "d", "e"):
        s3.put_object(Bucket=bucket, Key=name, Body=b"12")
    lines = aws("s3", "ls", f"s3://{bucket}", "--page-size", "2").splitlines()
    assert [line.split()[-1] for line in lines] == ["a/", "b/", "c", "d", "e"]
    total = aws("s3", "ls", f"s3://{bucket}", "--recursive", "--summarize", "--page-size", "4")
    assert "Total Objects: 6" in total
    assert "Total Size: 12" in total
    found = api(aws, "list-objects-v2", bucket, "--page-size", "4", "--query", "Contents[].Key")
    assert found == ["a/1", "a/2", "b/1", "c", "d", "e"]


def test_the_verbs_answer_in_full(aws: Program, bucket: str, tmp_path: Path) -> None:
    (tmp_path / "body").write_bytes(b"123456789")
    put = api(aws, "put-object", bucket, "--key", "a", "--body", "body",
              "--checksum-algorithm", "SHA256", "--metadata", "x=1")  # fmt: skip
    assert put["ETag"] == '"25f9e794323b453885f5181f1b624d0b"'
    head = api(aws, "head-object", bucket, "--key", "a", "--checksum-mode", "ENABLED")
    assert head["ChecksumSHA256"] == put["ChecksumSHA256"]
    assert head["Metadata"] == {"x": "1"}
    got = api(aws, "get-object", bucket, "--key", "a", "--range", "bytes=2-4", "part")
    assert got["ContentRange"] == "bytes 2-4/9"
    assert (tmp_path / "part").read_bytes() == b"345"
    copied = api(aws, "copy-object", bucket, "--key", "b", "--copy-source", f"{bucket}/a")
    assert copied["CopyObjectResult"]["ETag"] == put["ETag"]
    with pytest.raises(Failed, match="PreconditionFailed"):
        api(aws, "put-object", bucket, "--key", "a", "--body", "body", "--if-none-match", "*")
    doomed = json.dumps({"Objects": [{"Key": "a"}, {"Key": "b"}]})
    assert len(api(aws, "delete-objects", bucket, "--delete", doomed)["Deleted"]) == 2
    with pytest.raises(Failed, match="Not Found"):
        api(aws, "head-object", bucket, "--key", "a")


def test_presigned_urls_need_no_key(aws: Program, bucket: str, tmp_path: Path) -> None:
    """It has to be told how: where no region is named, it presigns by version 2."""
    aws("s3", "cp", "-", f"s3://{bucket}/a b+", stdin=b"shared")
    presign = ("s3", "presign", f"s3://{bucket}/a b+", "--expires-in", "60")
    with pytest.raises(HTTPError) as refused:
        urlopen(aws(*presign).strip())  # noqa: S310
    assert b"Please use AWS4-HMAC-SHA256" in refused.value.read()
    (tmp_path / ".aws").mkdir()
    (tmp_path / ".aws/config").write_text("[default]\ns3 =\n    signature_version = s3v4\n")
    with urlopen(aws(*presign).strip()) as answer:  # noqa: S310
        assert answer.read() == b"shared"


def test_versions_are_as_the_bucket_has_them(
    aws: Program, endpoint: Endpoint, bucket: str, request: pytest.FixtureRequest
) -> None:
    for data in (b"1", b"22"):
        aws("s3", "cp", "-", f"s3://{bucket}/a", stdin=data)
    aws("s3", "rm", f"s3://{bucket}/a")
    found = api(aws, "list-object-versions", bucket)
    if "unversioned" in request.node.name:
        assert "Versions" not in found
        assert api(aws, "get-bucket-versioning", bucket) == {}
        return
    assert api(aws, "get-bucket-versioning", bucket) == {"Status": "Enabled"}
    assert [entry["Size"] for entry in found["Versions"]] == [2, 1]
    assert [entry["IsLatest"] for entry in found["DeleteMarkers"]] == [True]
    marker = found["DeleteMarkers"][0]["VersionId"]
    api(aws, "delete-object", bucket, "--key", "a", "--version-id", marker)
    assert aws.raw("s3", "cp", f"s3://{bucket}/a", "-") == b"22"


def test_the_command_itself_runs(told: dict[str, str], bucket: str, tmp_path: Path) -> None:
    """The other tests fork it."""
    aws = Program("aws", home=tmp_path, environment=told)
    assert bucket in aws("s3", "ls")


# What `aws s3` does not copy: it takes a name that ends with a slash for a folder.
NAMES = but("trailing slash")
# As files, these lead elsewhere.
AS_FILES = [name for name in short(NAMES) if not set(name.split("/")) & {"", ".", ".."}]


def test_hostile_names_round_trip(
    aws: Program, s3: S3Client, new_bucket: Callable[[], str]
) -> None:
    source, copy, files, back = (new_bucket() for _ in range(4))
    objects = fill(s3, source, NAMES)
    aws("s3", "cp", "--recursive", f"s3://{source}", f"s3://{copy}")
    assert contents(s3, copy) == objects
    aws("s3", "rm", "--recursive", f"s3://{copy}")
    assert contents(s3, copy) == {}
    objects = fill(s3, files, AS_FILES)
    aws("s3", "sync", f"s3://{files}", "files")
    aws("s3", "sync", "files", f"s3://{back}")
    assert contents(s3, back) == objects


def test_every_name_is_a_key_of_the_verbs(aws: Program, s3: S3Client, bucket: str) -> None:
    fill(s3, bucket, HOSTILE.values())
    listed = api(aws, "list-objects-v2", bucket, "--query", "Contents[].Key")
    assert sorted(listed) == sorted(HOSTILE.values())
    doomed = {"Objects": [{"Key": name} for name in HOSTILE.values()], "Quiet": True}
    assert api(aws, "delete-objects", bucket, "--delete", json.dumps(doomed)) == {}
    assert contents(s3, bucket) == {}
