"""Buckets over S3: created, listed, configured, deleted."""

from __future__ import annotations

import base64
import hashlib
from pathlib import Path
from typing import Any

import pytest

from lakebed.base.errors import LakebedError
from lakebed.http.response import Response
from lakebed.s3.absent_configuration import GetAbsentConfiguration, get_absent_configuration
from lakebed.s3.auth.identity import Identity, PayloadKind
from lakebed.s3.errors import S3Error, to_s3
from lakebed.s3.service import Service
from lakebed.s3.verbs.bucket import (
    CreateBucket,
    DeleteBucket,
    HeadBucket,
    create_bucket,
    delete_bucket,
    head_bucket,
)
from lakebed.s3.verbs.bucket_location import GetBucketLocation, get_bucket_location
from lakebed.s3.verbs.bucket_versioning import (
    GetBucketVersioning,
    PutBucketVersioning,
    get_bucket_versioning,
    put_bucket_versioning,
)
from lakebed.s3.verbs.buckets import ListBuckets, list_buckets
from lakebed.s3.verbs.object_tagging import GetObjectTagging, get_object_tagging
from lakebed.seglake.endpoint_config import EndpointConfig
from lakebed.seglake.errors import (
    BadBucketName,
    BadDigest,
    BucketExists,
    BucketNotEmpty,
    NoSuchBucket,
    NoSuchKey,
)
from lakebed.seglake.model import Versioning
from tests.s3.botocore_answers import understood
from tests.s3.calls import call, header, identity, open_service, request

BUCKET = "photos"


def create(service: Service, name: str = BUCKET, *, body: str = "", **headers: str) -> Response:
    named = {key.replace("_", "-"): value for key, value in headers.items()}
    made = request("PUT", f"/{name}", headers=named, body=body.encode())
    return call(create_bucket, service, CreateBucket(bucket=name), made)


def constraint(region: str) -> str:
    inner = f"<LocationConstraint>{region}</LocationConstraint>"
    return f"<CreateBucketConfiguration>{inner}</CreateBucketConfiguration>"


def list_all(service: Service, **asked: Any) -> dict[str, Any]:
    return understood("ListBuckets", call(list_buckets, service, ListBuckets(**asked)))


def names(page: dict[str, Any]) -> list[str]:
    return [bucket["Name"] for bucket in page["Buckets"]]


def set_versioning(service: Service, status: str, **headers: str) -> Response:
    named = {key.replace("_", "-"): value for key, value in headers.items()}
    inner = f"<Status>{status}</Status>"
    body = f"<VersioningConfiguration>{inner}</VersioningConfiguration>".encode()
    made = request("PUT", f"/{BUCKET}?versioning", headers=named, body=body)
    return call(put_bucket_versioning, service, PutBucketVersioning(bucket=BUCKET), made)


def versioning(service: Service) -> object:
    found = call(get_bucket_versioning, service, GetBucketVersioning(bucket=BUCKET))
    return understood("GetBucketVersioning", found).get("Status")


def test_a_bucket_is_created_once_and_once_more_is_fine(service: Service) -> None:
    for _ in range(2):
        response = create(service)
        assert (response.status, header(response, "Location")) == (200, "/photos")
    assert service.lake.buckets.get(BUCKET).versioning is Versioning.ENABLED
    assert names(list_all(service)) == [BUCKET]


def test_a_bucket_is_created_without_versions_if_asked(service: Service) -> None:
    create(service, x_seglake_versioning="unversioned")
    assert service.lake.buckets.get(BUCKET).versioning is Versioning.DISABLED
    with pytest.raises(BucketExists):
        create(service, x_seglake_versioning="enabled")
    with pytest.raises(S3Error) as caught:
        create(service, "other", x_seglake_versioning="suspended")
    assert caught.value.code == "InvalidArgument"


def test_a_new_bucket_is_as_the_configuration_says(tmp_path: Path) -> None:
    with open_service(tmp_path, default_versioning="unversioned") as service:
        create(service)
        assert service.lake.buckets.get(BUCKET).versioning is Versioning.DISABLED
        create(service, "other", x_seglake_versioning="enabled")
        assert service.lake.buckets.get("other").versioning is Versioning.ENABLED


@pytest.mark.parametrize(
    ("region", "asked", "is_fine"),
    [
        ("us-east-1", "us-east-1", True),
        ("us-east-1", "us", True),
        ("us-east-1", "", True),
        ("us-east-1", "eu-west-1", False),
        ("eu-west-1", "eu-west-1", True),
        ("eu-west-1", "", True),
        ("eu-west-1", "us", False),
        ("eu-west-1", "us-east-1", False),
    ],
)
def test_a_bucket_is_created_in_the_one_region_there_is(
    tmp_path: Path, region: str, asked: str, is_fine: bool
) -> None:
    with open_service(tmp_path, config=EndpointConfig(region=region)) as service:
        if is_fine:
            assert create(service, body=constraint(asked)).status == 200
        else:
            with pytest.raises(S3Error) as caught:
                create(service, body=constraint(asked))
            assert caught.value.code == "IllegalLocationConstraintException"
            assert not service.lake.buckets.list()


def test_a_bad_name_is_refused(service: Service) -> None:
    for name in ("UPPER", "ab", "a..b", "1.2.3.4"):
        with pytest.raises(BadBucketName):
            create(service, name)


def test_a_document_is_compared_with_what_was_said_of_it(service: Service) -> None:
    body = constraint("us-east-1")
    right = base64.b64encode(hashlib.md5(body.encode()).digest()).decode()  # noqa: S324
    wrong = base64.b64encode(bytes(16)).decode()
    with pytest.raises(BadDigest):
        create(service, body=body, content_md5=wrong)
    with pytest.raises(BadDigest):
        create(service, body=body, x_amz_checksum_crc32="AAAAAA==")
    with pytest.raises(S3Error) as caught:
        create(service, body=body, x_amz_trailer="x-amz-checksum-crc32")
    assert caught.value.code == "NotImplemented"
    made = request("PUT", "/photos", body=body.encode())
    signed = identity(PayloadKind.SIGNED, sha256="0" * 64)
    with pytest.raises(S3Error) as caught:
        call(create_bucket, service, CreateBucket(bucket=BUCKET), made, signed)
    assert caught.value.code == "XAmzContentSHA256Mismatch"
    assert not service.lake.buckets.list()
    assert create(service, body=body, content_md5=right).status == 200


def test_an_empty_document_is_compared_with_what_was_announced(service: Service) -> None:
    empty_sha256 = hashlib.sha256().hexdigest()
    other_sha256 = hashlib.sha256(constraint("eu-west-1").encode()).hexdigest()
    chunked = identity(PayloadKind.CHUNKS_UNSIGNED)
    wrong: list[tuple[str, Identity, dict[str, str]]] = [
        ("XAmzContentSHA256Mismatch", identity(PayloadKind.SIGNED, sha256=other_sha256), {}),
        ("IncompleteBody", identity(), {"x-amz-decoded-content-length": "80"}),
        ("IncompleteBody", chunked, {"x-amz-decoded-content-length": "0"}),
        ("IncompleteBody", chunked, {}),
        ("BadDigest", identity(), {"content-md5": base64.b64encode(bytes(16)).decode()}),
        ("BadDigest", identity(), {"x-amz-checksum-crc32": "AAAAAQ=="}),
    ]
    for code, who, headers in wrong:
        made = request("PUT", "/photos", headers=headers)
        with pytest.raises(LakebedError) as refused:
            call(create_bucket, service, CreateBucket(bucket=BUCKET), made, who)
        assert to_s3(refused.value).code == code
    assert not service.lake.buckets.list()
    made = request("PUT", "/photos")
    del made.headers["content-length"]  # type: ignore[attr-defined]
    signed = identity(PayloadKind.SIGNED, sha256=empty_sha256)
    assert call(create_bucket, service, CreateBucket(bucket=BUCKET), made, signed).status == 200


def test_a_document_that_is_too_long_is_not_read(service: Service) -> None:
    made = request("PUT", "/photos", body=[b"<" * 100_000])
    with pytest.raises(S3Error) as caught:
        call(create_bucket, service, CreateBucket(bucket=BUCKET), made)
    assert (caught.value.code, caught.value.closes) == ("MaxMessageLengthExceeded", True)


def test_a_document_may_come_in_pieces(service: Service) -> None:
    made = request("PUT", "/photos", body=[bytes([byte]) for byte in constraint("us").encode()])
    call(create_bucket, service, CreateBucket(bucket=BUCKET), made)
    assert names(list_all(service)) == [BUCKET]


def test_buckets_are_listed_by_name_and_in_pages(service: Service) -> None:
    for name in ("bb-2", "aaa", "bb-1", "bb-3", "ccc"):
        service.lake.buckets.create(name)
    page = list_all(service)
    assert names(page) == ["aaa", "bb-1", "bb-2", "bb-3", "ccc"]
    assert page["Owner"]["DisplayName"] == "lakebed"
    assert page["Buckets"][0]["BucketRegion"] == "us-east-1"
    found: list[str] = []
    token = ""
    while True:
        page = list_all(service, prefix="bb-", max_buckets=2, continuation_token=token)
        assert page["Prefix"] == "bb-"
        found += names(page)
        token = page.get("ContinuationToken", "")
        if not token:
            break
    assert found == ["bb-1", "bb-2", "bb-3"]
    assert names(list_all(service, region="eu-west-1")) == []
    assert len(names(list_all(service, region="us-east-1"))) == 5


def test_a_token_of_another_listing_is_refused(service: Service) -> None:
    for forged in ("x", "AAAA"):
        with pytest.raises(S3Error) as caught:
            list_all(service, continuation_token=forged)
        assert caught.value.code == "InvalidArgument"


def test_a_bucket_is_deleted_when_it_is_empty(service: Service) -> None:
    create(service)
    service.lake.objects.put(BUCKET, "a", b"")
    with pytest.raises(BucketNotEmpty):
        call(delete_bucket, service, DeleteBucket(bucket=BUCKET))
    version = service.lake.objects.head(BUCKET, "a").version_id
    service.lake.objects.delete(BUCKET, "a", version_id=version)
    assert call(delete_bucket, service, DeleteBucket(bucket=BUCKET)).status == 204
    with pytest.raises(NoSuchBucket):
        call(delete_bucket, service, DeleteBucket(bucket=BUCKET))


def test_a_bucket_tells_its_region(tmp_path: Path) -> None:
    for region, told in (("us-east-1", None), ("eu-west-1", "eu-west-1")):
        with open_service(tmp_path / region, config=EndpointConfig(region=region)) as service:
            create(service)
            head = call(head_bucket, service, HeadBucket(bucket=BUCKET))
            assert understood("HeadBucket", head)["BucketRegion"] == region
            found = call(get_bucket_location, service, GetBucketLocation(bucket=BUCKET))
            body = found.body
            assert isinstance(body, bytes)
            assert (f">{told}<".encode() in body) == (told is not None)
            assert body.endswith(b"</LocationConstraint>")


def test_versioning_is_set_and_told(service: Service) -> None:
    create(service, x_seglake_versioning="unversioned")
    assert versioning(service) is None
    for status in ("Enabled", "Suspended", "Enabled"):
        assert set_versioning(service, status).status == 200
        assert versioning(service) == status


def test_a_bucket_that_is_not_there_is_told_for_every_verb(service: Service) -> None:
    absent = GetAbsentConfiguration(bucket=BUCKET, code="NoSuchBucketPolicy", message="x")
    for verb, operation in (
        (head_bucket, HeadBucket(bucket=BUCKET)),
        (get_bucket_location, GetBucketLocation(bucket=BUCKET)),
        (get_bucket_versioning, GetBucketVersioning(bucket=BUCKET)),
        (get_absent_configuration, absent),
        (get_object_tagging, GetObjectTagging(bucket=BUCKET, key="k")),
    ):
        with pytest.raises(NoSuchBucket):
            call(verb, service, operation)
    with pytest.raises(NoSuchBucket):
        set_versioning(service, "Enabled")


def test_a_configuration_that_no_bucket_has_is_not_found(service: Service) -> None:
    create(service)
    absent = GetAbsentConfiguration(bucket=BUCKET, code="NoSuchBucketPolicy", message="x")
    with pytest.raises(S3Error) as caught:
        call(get_absent_configuration, service, absent)
    assert caught.value.code == "NoSuchBucketPolicy"


def test_an_object_has_no_tags_if_it_is_there(service: Service) -> None:
    create(service)
    with pytest.raises(NoSuchKey):
        call(get_object_tagging, service, GetObjectTagging(bucket=BUCKET, key="k"))
    info = service.lake.objects.put(BUCKET, "k", b"")
    found = call(get_object_tagging, service, GetObjectTagging(bucket=BUCKET, key="k"))
    told = understood("GetObjectTagging", found)
    assert (told["TagSet"], told["VersionId"]) == ([], info.version_id)
