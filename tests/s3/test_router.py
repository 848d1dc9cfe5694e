"""What requests ask for, by the table; and that nothing else ever becomes a plain verb."""

from __future__ import annotations

import dataclasses
import gzip
import importlib.resources
import json
import pkgutil
from collections.abc import Iterator
from importlib import import_module
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebed.s3 import verbs
from lakebed.s3.absent_configuration import ABSENT, GetAbsentConfiguration
from lakebed.s3.errors import STATUSES, S3Error
from lakebed.s3.router import ROUTES, SELECTORS, VERBS
from lakebed.s3.unsupported import SUBRESOURCES
from lakebed.s3.verb import Level, Operation
from lakebed.s3.verbs.bucket import CreateBucket, DeleteBucket, HeadBucket
from lakebed.s3.verbs.bucket_location import GetBucketLocation
from lakebed.s3.verbs.bucket_objects import ListObjects, ListObjectsV2
from lakebed.s3.verbs.bucket_uploads import ListMultipartUploads
from lakebed.s3.verbs.bucket_versioning import GetBucketVersioning, PutBucketVersioning
from lakebed.s3.verbs.bucket_versions import ListObjectVersions
from lakebed.s3.verbs.buckets import ListBuckets
from lakebed.s3.verbs.multipart_upload import (
    AbortMultipartUpload,
    CompleteMultipartUpload,
    CreateMultipartUpload,
)
from lakebed.s3.verbs.object_attributes import GetObjectAttributes
from lakebed.s3.verbs.object_copy import CopyObject, UploadPartCopy
from lakebed.s3.verbs.object_delete import DeleteObject
from lakebed.s3.verbs.object_get import GetObject, HeadObject
from lakebed.s3.verbs.object_put import PutObject
from lakebed.s3.verbs.object_tagging import GetObjectTagging
from lakebed.s3.verbs.objects_delete import DeleteObjects
from lakebed.s3.verbs.upload_parts import ListParts, UploadPart
from tests.s3.calls import refused, request, routed

pytestmark = pytest.mark.thorough

SOURCE = {"x-amz-copy-source": "/b/other"}
GIVEN = "t"

ASKED: list[tuple[str, str, Operation]] = [
    ("GET", "/", ListBuckets()),
    (
        "GET",
        "/?prefix=a&max-buckets=7&continuation-token=t&bucket-region=r&x-id=ListBuckets",
        ListBuckets(prefix="a", max_buckets=7, continuation_token=GIVEN, region="r"),
    ),
    ("PUT", "/b", CreateBucket(bucket="b")),
    ("PUT", "/b/?x-id=CreateBucket", CreateBucket(bucket="b")),
    ("DELETE", "/b", DeleteBucket(bucket="b")),
    ("HEAD", "/b/", HeadBucket(bucket="b")),
    ("GET", "/b?location", GetBucketLocation(bucket="b")),
    ("GET", "/b/?location=", GetBucketLocation(bucket="b")),
    ("GET", "/b?versioning", GetBucketVersioning(bucket="b")),
    ("PUT", "/b?versioning", PutBucketVersioning(bucket="b")),
    ("POST", "/b?delete&x-id=DeleteObjects", DeleteObjects(bucket="b")),
    ("GET", "/b", ListObjects(bucket="b")),
    ("GET", "/b?list-type=1&max-keys=", ListObjects(bucket="b")),
    (
        "GET",
        "/b?prefix=a+b%2B&delimiter=%2F&max-keys=5000&marker=m&encoding-type=url",
        ListObjects(
            bucket="b",
            prefix="a b+",
            delimiter="/",
            max_keys=5000,
            marker="m",
            is_url_encoded=True,
        ),
    ),
    (
        "GET",
        "/b?list-type=2&start-after=s&continuation-token=t&fetch-owner=true&max-keys=0",
        ListObjectsV2(
            bucket="b", start_after="s", continuation_token=GIVEN, fetches_owner=True, max_keys=0
        ),
    ),
    (
        "GET",
        "/b?versions&key-marker=k&version-id-marker=null",
        ListObjectVersions(bucket="b", key_marker="k", version_id_marker="null"),
    ),
    (
        "GET",
        "/b?uploads&max-uploads=3&key-marker=k&upload-id-marker=u",
        ListMultipartUploads(bucket="b", max_keys=3, key_marker="k", upload_id_marker="u"),
    ),
    ("PUT", "/b/k?x-id=PutObject", PutObject(bucket="b", key="k")),
    (
        "GET",
        "/b/k?versionId=v&partNumber=3&response-content-type=a%2Fb&anything=else",
        GetObject(
            bucket="b",
            key="k",
            version_id="v",
            part_number=3,
            overrides=(("content-type", "a/b"),),
        ),
    ),
    ("HEAD", "/b/k?versionId=null", HeadObject(bucket="b", key="k", version_id="null")),
    ("GET", "/b/k?tagging", GetObjectTagging(bucket="b", key="k")),
    (
        "GET",
        "/b/k?attributes&versionId=v",
        GetObjectAttributes(bucket="b", key="k", version_id="v"),
    ),
    ("DELETE", "/b/k?versionId=v", DeleteObject(bucket="b", key="k", version_id="v")),
    ("POST", "/b/k?uploads", CreateMultipartUpload(bucket="b", key="k")),
    (
        "PUT",
        "/b/k?partNumber=10000&uploadId=u",
        UploadPart(bucket="b", key="k", upload_id="u", part_number=10_000),
    ),
    (
        "GET",
        "/b/k?uploadId=u&max-parts=2&part-number-marker=1&encoding-type=url",
        ListParts(
            bucket="b",
            key="k",
            upload_id="u",
            max_parts=2,
            part_number_marker=1,
            is_url_encoded=True,
        ),
    ),
    ("POST", "/b/k?uploadId=u", CompleteMultipartUpload(bucket="b", key="k", upload_id="u")),
    ("DELETE", "/b/k?uploadId=u", AbortMultipartUpload(bucket="b", key="k", upload_id="u")),
]

COPIED: list[tuple[str, Operation]] = [
    ("/b/k", CopyObject(bucket="b", key="k")),
    (
        "/b/k?uploadId=u&partNumber=1",
        UploadPartCopy(bucket="b", key="k", upload_id="u", part_number=1),
    ),
]


ACTIONS = {
    "CompleteMultipartUpload": "s3:PutObject",
    "CopyObject": "s3:PutObject",
    "CreateMultipartUpload": "s3:PutObject",
    "DeleteObjects": "s3:DeleteObject",
    "HeadBucket": "s3:ListBucket",
    "HeadObject": "s3:GetObject",
    "ListBuckets": "s3:ListAllMyBuckets",
    "ListMultipartUploads": "s3:ListBucketMultipartUploads",
    "ListObjectVersions": "s3:ListBucketVersions",
    "ListObjects": "s3:ListBucket",
    "ListObjectsV2": "s3:ListBucket",
    "ListParts": "s3:ListMultipartUploadParts",
    "UploadPart": "s3:PutObject",
    "UploadPartCopy": "s3:PutObject",
}
"""Where AWS names an action otherwise than the operation."""


@pytest.mark.parametrize(("method", "target", "asked"), ASKED)
def test_what_is_asked_for_is_told_with_all_its_parameters(
    method: str, target: str, asked: Operation
) -> None:
    assert routed(request(method, target)) == asked


@pytest.mark.parametrize(("target", "asked"), COPIED)
def test_a_put_with_a_source_is_a_copy(target: str, asked: Operation) -> None:
    assert routed(request("PUT", target, headers=SOURCE)) == asked


def test_every_row_of_the_table_is_tried_here() -> None:
    tried = {type(asked) for _, _, asked in ASKED} | {type(asked) for _, asked in COPIED}
    assert {verb.operation for verb in VERBS} == tried


def test_every_typed_request_of_a_file_has_one_verb_and_one_place() -> None:
    names = [module.name for module in pkgutil.iter_modules(verbs.__path__)]
    declared = [
        kind
        for name in names
        for kind in vars(import_module(f"{verbs.__name__}.{name}")).values()
        if isinstance(kind, type) and issubclass(kind, Operation) and kind.__module__.endswith(name)
    ]
    assert sorted(declared, key=str) == sorted((verb.operation for verb in VERBS), key=str)
    assert len({verb.place for verb in VERBS}) == len(VERBS)


def test_whether_a_verb_writes_is_what_its_method_says() -> None:
    for verb in ROUTES.values():
        assert verb.writes == (verb.place.method not in ("GET", "HEAD")), verb.operation


def test_every_verb_names_the_action_that_aws_authorises_it_by() -> None:
    same = {verb.operation.__name__ for verb in VERBS} - ACTIONS.keys()
    actions = {verb.operation.__name__: verb.action for verb in VERBS}
    assert actions == ACTIONS | {name: f"s3:{name}" for name in same}


@pytest.mark.parametrize(
    "name",
    [
        verb.place.subresource
        for verb in ROUTES.values()
        if verb.operation is GetAbsentConfiguration
    ],
)
def test_a_configuration_that_no_bucket_has_is_told_by_the_name_aws_has_for_that(
    name: str,
) -> None:
    asked = routed(request("GET", f"/b?{name}"))
    code, message, _ = ABSENT[name]
    assert asked == GetAbsentConfiguration(bucket="b", code=code, message=message)
    assert STATUSES[code] == 404


@pytest.mark.parametrize("method", ["GET", "HEAD", "PUT", "POST", "DELETE"])
@pytest.mark.parametrize("target", ["/b", "/b/k"])
def test_what_is_not_supported_never_becomes_the_plain_verb(method: str, target: str) -> None:
    level = Level.OBJECT if "k" in target else Level.BUCKET
    supported = {
        place.subresource for place in ROUTES if (place.method, place.level) == (method, level)
    }
    for name in sorted(SUBRESOURCES - supported):
        for query in (name, f"{name}=", f"{name}=1&versionId=v", f"x-id=a&{name}"):
            assert refused(method, f"{target}?{query}").code == "NotImplemented"
        assert refused(method, f"{target}?{name}", headers=SOURCE).code == "NotImplemented"


@pytest.mark.parametrize("method", ["GET", "HEAD", "PUT", "POST", "DELETE"])
@pytest.mark.parametrize("target", ["/", "/b", "/b/k"])
def test_two_subresources_at_once_are_a_conflict(method: str, target: str) -> None:
    error = refused(method, f"{target}?uploads&acl")
    assert error.code == "InvalidArgument"
    assert "acl, uploads" in str(error)


def _service_model() -> dict[str, Any]:
    data = importlib.resources.files("botocore") / "data" / "s3" / "2006-03-01"
    with gzip.open(str(data / "service-2.json.gz")) as file:
        model: dict[str, Any] = json.load(file)
    return model


def _requests_of_botocore() -> Iterator[tuple[str, str, str]]:
    """Name, method and target of everything that botocore can ask for."""
    model = _service_model()
    for name, operation in model["operations"].items():
        shape = model["shapes"].get(operation.get("input", {}).get("shape"), {})
        members, needed = shape.get("members", {}), shape.get("required", ())
        values = [
            f"{members[one]['locationName']}=1"
            for one in needed
            if members[one].get("location") == "querystring"
        ]
        uri = operation["http"]["requestUri"].replace("{Bucket}", "b").replace("{Key+}", "k")
        if values:
            uri += ("&" if "?" in uri else "?") + "&".join(values)
        yield name, operation["http"]["method"], uri


@pytest.mark.parametrize(("name", "method", "target"), list(_requests_of_botocore()))
def test_what_botocore_asks_for_is_that_or_is_refused(name: str, method: str, target: str) -> None:
    headers = SOURCE if name in ("CopyObject", "UploadPartCopy") else None
    try:
        asked = type(routed(request(method, target, headers=headers))).__name__
    except S3Error as error:
        assert error.code == "NotImplemented"
        assert name not in {verb.operation.__name__ for verb in VERBS}
        return
    is_absent = asked == "GetAbsentConfiguration" and target.partition("?")[2] in ABSENT
    same = {"ListDirectoryBuckets": "ListBuckets"}  # of another service, at the same place
    assert is_absent or asked == same.get(name, name)


@pytest.mark.parametrize("method", ["PUT", "POST", "DELETE"])
@pytest.mark.parametrize("target", ["/b", "/b/k", "/b/k?uploadId=u&partNumber=1"])
def test_a_write_with_a_parameter_that_nobody_knows_is_refused(method: str, target: str) -> None:
    joint = "&" if "?" in target else "?"
    for query in ("append", "position=0", "Uploads", "response-content-type=a", "partnumber=2"):
        assert refused(method, f"{target}{joint}{query}").code == "NotImplemented"


def test_a_write_does_not_take_the_id_of_a_version() -> None:
    for method, target in (("PUT", "/b/k"), ("POST", "/b/k?uploads"), ("DELETE", "/b")):
        joint = "&" if "?" in target else "?"
        assert refused(method, f"{target}{joint}versionId=v").code == "InvalidArgument"


def test_the_number_of_a_part_without_an_upload_is_no_put() -> None:
    assert refused("PUT", "/b/k?partNumber=1").code == "NotImplemented"
    assert refused("PUT", "/b/k?uploadId=u").code == "InvalidArgument"
    assert refused("PUT", "/b/k?uploadId=&partNumber=1").code == "InvalidArgument"


@pytest.mark.parametrize(
    ("target", "name", "value"),
    [
        ("/b?max-keys=-1", "max-keys", "-1"),
        ("/b?max-keys=ten", "max-keys", "ten"),
        ("/b?max-keys=%D9%A3", "max-keys", "٣"),
        ("/b?max-keys=1_0", "max-keys", "1_0"),
        ("/b?max-keys=2147483648", "max-keys", "2147483648"),
        ("/b?max-keys=" + "9" * 5000, "max-keys", "9" * 5000),
        ("/?max-buckets=0", "max-buckets", "0"),
        ("/b/k?partNumber=0", "partNumber", "0"),
        ("/b/k?partNumber=10001", "partNumber", "10001"),
        ("/b/k?uploadId=u&part-number-marker=x", "part-number-marker", "x"),
        ("/b?uploads&max-uploads=x", "max-uploads", "x"),
        ("/b?encoding-type=base64", "encoding-type", "base64"),
        ("/b?list-type=3", "list-type", "3"),
        ("/b/k?versionId=", "versionId", ""),
        ("/b/k?versionId=%C6%9F", "versionId", "Ɵ"),
        ("/b/k?versionId=a%0D%0Ab", "versionId", "a\r\nb"),
        ("/b?list-type=2&continuation-token=", "continuation-token", ""),
        ("/b?versions&version-id-marker=v", "version-id-marker", "v"),
        ("/b?prefix=a&prefix=b", "prefix", "b"),
        ("/b/k?response-expires=a%0D%0Ab", "response-expires", "a\r\nb"),
    ],
)
def test_a_bad_parameter_is_refused_with_its_name_and_value(
    target: str, name: str, value: str
) -> None:
    error = refused("GET", target)
    assert error.code == "InvalidArgument"
    assert error.details == (("ArgumentName", name), ("ArgumentValue", value))


@pytest.mark.parametrize(
    ("path", "key"),
    [
        ("/b/a%2Fb", "a/b"),
        ("/b/a+b%2B", "a+b+"),
        ("/b//a", "/a"),
        ("/b//", "/"),
        ("/b/../c/./d", "../c/./d"),
        ("/b/%2e%2e/x", "../x"),
        ("/b/%252F", "%2F"),
        ("/b/%E2%82%AC", "€"),
        ("/b/%00%01%7F", "\x00\x01\x7f"),
        ("/b/a/", "a/"),
        ("/b/a?b", "a"),
    ],
)
def test_a_key_is_decoded_once_and_kept(path: str, key: str) -> None:
    assert routed(request("GET", path)) == GetObject(bucket="b", key=key)


@pytest.mark.parametrize("path", ["/b/%FF", "/b/%", "/b/%zz", "/b/%e2%82", "b/k", "*", "/b?a=%f"])
def test_a_path_that_is_no_text_is_refused(path: str) -> None:
    assert refused("GET", path).code == "InvalidURI"


def test_a_path_without_a_bucket_is_refused() -> None:
    assert refused("GET", "//k").code == "InvalidBucketName"


@pytest.mark.parametrize(
    ("host", "domain", "bucket"),
    [
        ("photos.s3.example.com", "s3.example.com", "photos"),
        ("my.photos.S3.Example.com:9000", "s3.example.com", "my.photos"),
        ("photos.s3.example.com.", "S3.example.com", "photos"),
        ("photos.localhost:9000", "", "photos"),
        ("photos.s3.localhost", "", "photos"),
    ],
)
def test_a_bucket_can_stand_in_the_host(host: str, domain: str, bucket: str) -> None:
    headers = {"host": host}
    found = routed(request("GET", "/b/k", headers=headers), domain=domain)
    assert found == GetObject(bucket=bucket, key="b/k")
    assert routed(request("GET", "//k", headers=headers), domain=domain) == GetObject(
        bucket=bucket, key="/k"
    )
    assert routed(request("PUT", "/", headers=headers), domain=domain) == CreateBucket(
        bucket=bucket
    )


@pytest.mark.parametrize(
    ("host", "domain"),
    [
        ("127.0.0.1:9000", ""),
        ("[::1]:9000", ""),
        ("::1", ""),
        ("localhost", ""),
        ("s3.localhost:80", ""),
        ("store", ""),
        ("photos.example.com", ""),
        ("s3.example.com", "s3.example.com"),
        ("photos.localhost", "s3.example.com"),
        ("photos-s3.example.com", "s3.example.com"),
        ("", ""),
    ],
)
def test_other_hosts_are_path_style(host: str, domain: str) -> None:
    found = routed(request("GET", "/b/k", headers={"host": host}), domain=domain)
    assert found == GetObject(bucket="b", key="k")


def test_methods_that_are_none_of_s3_are_refused() -> None:
    assert refused("OPTIONS", "/b/k").code == "AccessForbidden"
    for method, target in (("PATCH", "/b/k"), ("TRACE", "/"), ("PUT", "/"), ("DELETE", "/")):
        assert refused(method, target).code == "MethodNotAllowed"
    for target in ("/b", "/b/k"):
        assert refused("POST", target).code == "NotImplemented"


@given(key=st.text(min_size=1))
def test_any_key_comes_back_from_its_path(key: str) -> None:
    try:
        path = "/b/" + quote(key.encode(), safe="/+")
    except UnicodeEncodeError:
        return
    assert routed(request("GET", path)) == GetObject(bucket="b", key=key)


_HOSTILE = st.text(alphabet="/%+.&=?;#ab2Ff é\x00\xff", max_size=30)
_NAMES = st.sampled_from([*sorted(SELECTORS), "partNumber", "versionId", "max-keys", "x-id", "a"])
_PARAMETERS = st.lists(st.tuples(_NAMES, _HOSTILE), max_size=4)


@given(
    method=st.sampled_from(["GET", "HEAD", "PUT", "POST", "DELETE", "OPTIONS", "GIT"]),
    path=_HOSTILE,
    parameters=_PARAMETERS,
    host=st.text(max_size=20) | st.sampled_from(["x.localhost", "[::1", ".localhost", ":"]),
)
def test_nothing_but_an_error_of_s3_comes_of_a_request_however_bad(
    method: str, path: str, parameters: list[tuple[str, str]], host: str
) -> None:
    made = request(method, "/")
    made.headers = {"host": host}
    made.raw_path = b"/" + path.encode()
    made.raw_query = "&".join(f"{name}={value}" for name, value in parameters).encode()
    try:
        found = routed(made)
    except S3Error as error:
        assert error.code in STATUSES
    else:
        assert dataclasses.is_dataclass(found)


@given(raw=st.binary(max_size=40), query=st.binary(max_size=40))
def test_any_bytes_are_routed_or_refused(raw: bytes, query: bytes) -> None:
    made = request("GET", "/")
    made.raw_path, made.raw_query = raw, query
    try:
        routed(made, domain="s3.example.com")
    except S3Error as error:
        assert error.code in STATUSES
