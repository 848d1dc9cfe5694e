"""Objects deleted over S3: one, and many at once."""

from __future__ import annotations

import base64
import hashlib
import zlib
from typing import Any

import pytest

from lakebed.http.response import Response
from lakebed.s3.errors import S3Error
from lakebed.s3.service import Service
from lakebed.s3.verbs.object_delete import DeleteObject, delete_object
from lakebed.s3.verbs.objects_delete import DeleteObjects, delete_objects
from lakebed.s3.xml_text import element
from lakebed.seglake.errors import BadDigest, NoSuchBucket, NoSuchKey, PreconditionFailed
from lakebed.seglake.model import Versioning
from tests.s3.botocore_answers import understood
from tests.s3.calls import call, header, request
from tests.seglake.lakes import add_bucket, keys, told_versions

BUCKET = "photos"


def put(service: Service, key: str = "k") -> str:
    """The version id of a new object, as it is told."""
    return service.lake.objects.put(BUCKET, key, key.encode()).shown_version_id


def delete(
    service: Service, key: str = "k", version_id: str | None = None, **headers: str
) -> Response:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    operation = DeleteObject(bucket=BUCKET, key=key, version_id=version_id)
    return call(delete_object, service, operation, request("DELETE", headers=named))


def reported(response: Response) -> tuple[int, str | None, str | None]:
    marker = header(response, "x-amz-delete-marker")
    return response.status, marker, header(response, "x-amz-version-id")


def document(*objects: str, is_quiet: bool = False) -> bytes:
    quiet = "<Quiet>true</Quiet>" if is_quiet else ""
    return (
        f"<Delete>{''.join(f'<Object>{one}</Object>' for one in objects)}{quiet}</Delete>".encode()
    )


def delete_many(
    service: Service, body: bytes, headers: dict[str, str] | None = None
) -> dict[str, Any]:
    if headers is None:
        crc = zlib.crc32(body).to_bytes(4, "big")
        headers = {"x-amz-checksum-crc32": base64.b64encode(crc).decode()}
    made = request("POST", f"/{BUCKET}?delete", headers=headers, body=body)
    found = call(delete_objects, service, DeleteObjects(bucket=BUCKET), made)
    return understood("DeleteObjects", found)


def test_a_delete_puts_a_marker_and_tells_its_id(service: Service) -> None:
    add_bucket(service.lake, Versioning.ENABLED)
    version_id = put(service)
    status, is_marker, marker_id = reported(delete(service))
    assert (status, is_marker) == (204, "true")
    assert [found[1] for found in told_versions(service.lake)] == [marker_id, version_id]
    assert reported(delete(service, version_id=marker_id)) == (204, "true", marker_id)
    assert reported(delete(service, version_id=version_id)) == (204, None, version_id)
    assert told_versions(service.lake) == []


def test_a_delete_in_a_suspended_bucket_is_a_null_marker(service: Service) -> None:
    add_bucket(service.lake, Versioning.SUSPENDED)
    put(service)
    assert reported(delete(service)) == (204, "true", "null")


def test_a_delete_without_versions_tells_no_id(service: Service) -> None:
    add_bucket(service.lake, Versioning.DISABLED)
    put(service)
    for _ in range(2):
        assert reported(delete(service)) == (204, None, None)
    assert keys(service.lake) == []
    put(service)
    for _ in range(2):
        assert reported(delete(service, version_id="null")) == (204, None, None)
    assert keys(service.lake) == []


def test_a_version_that_is_not_there_is_deleted_already(service: Service) -> None:
    add_bucket(service.lake, Versioning.ENABLED)
    assert reported(delete(service, version_id="none")) == (204, None, "none")


def test_a_delete_can_depend_on_the_object(service: Service) -> None:
    add_bucket(service.lake, Versioning.DISABLED)
    put(service)
    etag = hashlib.md5(b"k").hexdigest()  # noqa: S324 - an ETag is one
    with pytest.raises(PreconditionFailed):
        delete(service, if_match='"other"')
    assert keys(service.lake) == ["k"]
    assert delete(service, if_match=f'"{etag}"').status == 204
    assert keys(service.lake) == []
    with pytest.raises(NoSuchKey):
        delete(service, if_match="*")
    put(service)
    assert delete(service, if_match="*").status == 204


def test_an_asterisk_in_quotes_is_an_etag_that_no_object_has(service: Service) -> None:
    add_bucket(service.lake, Versioning.DISABLED)
    put(service)
    with pytest.raises(PreconditionFailed):
        delete(service, if_match='"*"')
    found = delete_many(service, document('<Key>k</Key><ETag>"*"</ETag>'))
    assert [one["Code"] for one in found["Errors"]] == ["PreconditionFailed"]
    assert keys(service.lake) == ["k"]
    assert "Errors" not in delete_many(service, document("<Key>k</Key><ETag>*</ETag>"))


def test_several_etags_of_an_object_to_delete_are_refused(service: Service) -> None:
    add_bucket(service.lake, Versioning.DISABLED)
    put(service)
    with pytest.raises(S3Error) as caught:
        delete_many(service, document('<Key>k</Key><ETag>"a", "b"</ETag>'))
    assert caught.value.code == "NotImplemented"
    assert keys(service.lake) == ["k"]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("if_none_match", "*"),
        ("if_modified_since", "*"),
        ("if_unmodified_since", "*"),
        ("if_match", '"a", "b"'),
    ],
)
def test_a_condition_that_a_delete_does_not_take_is_not_ignored(
    service: Service, name: str, value: str
) -> None:
    add_bucket(service.lake, Versioning.DISABLED)
    put(service)
    with pytest.raises(S3Error) as caught:
        delete(service, **{name: value})
    assert caught.value.code == "NotImplemented"
    assert keys(service.lake) == ["k"]


def test_many_are_deleted_and_each_is_told(service: Service) -> None:
    add_bucket(service.lake, Versioning.ENABLED)
    names = ["a", "<&>", "\r\n", "\t", "é", "b"]
    versions = {name: put(service, name) for name in names}
    objects = [element("Key", name) for name in [*names, "never there"]]
    objects.append(f"<Key>a</Key>{element('VersionId', versions['a'])}")
    found = delete_many(service, document(*objects))
    assert "Errors" not in found
    *marked, removed = found["Deleted"]
    assert [one["Key"] for one in marked] == [*names, "never there"]
    assert all(one["DeleteMarker"] and "VersionId" not in one for one in marked)
    assert removed == {"Key": "a", "VersionId": versions["a"]}
    assert keys(service.lake) == []
    told_ids = {found[1] for found in told_versions(service.lake)}
    assert {one["DeleteMarkerVersionId"] for one in marked} <= told_ids
    assert versions["a"] not in told_ids


def test_a_marker_that_is_deleted_is_told_as_one(service: Service) -> None:
    add_bucket(service.lake, Versioning.ENABLED)
    marker_id = reported(delete(service))[2]
    assert marker_id is not None
    body = document(f"<Key>k</Key><VersionId>{marker_id}</VersionId>")
    assert delete_many(service, body)["Deleted"] == [
        {
            "Key": "k",
            "VersionId": marker_id,
            "DeleteMarker": True,
            "DeleteMarkerVersionId": marker_id,
        }
    ]


def test_one_that_fails_does_not_hold_up_the_others(service: Service) -> None:
    add_bucket(service.lake, Versioning.DISABLED)
    put(service, "a")
    put(service, "b")
    body = document('<Key>a</Key><ETag>"other"</ETag>', element("Key", "x" * 1025), "<Key>b</Key>")
    found = delete_many(service, body)
    assert found["Deleted"] == [{"Key": "b"}]
    assert [(one["Key"][:1], one["Code"]) for one in found["Errors"]] == [
        ("a", "PreconditionFailed"),
        ("x", "KeyTooLongError"),
    ]
    assert keys(service.lake) == ["a"]


def test_a_quiet_one_tells_only_what_went_wrong(service: Service) -> None:
    add_bucket(service.lake, Versioning.DISABLED)
    put(service, "a")
    body = document("<Key>a</Key>", "<Key>c</Key><ETag>e</ETag>", is_quiet=True)
    found = delete_many(service, body)
    assert "Deleted" not in found
    assert [(one["Key"], one["Code"]) for one in found["Errors"]] == [("c", "NoSuchKey")]
    assert keys(service.lake) == []


def test_a_thousand_are_deleted_in_one_request(service: Service) -> None:
    add_bucket(service.lake, Versioning.DISABLED)
    names = [f"key-{number:04d}" for number in range(1000)]
    for name in names[:50]:
        put(service, name)
    found = delete_many(service, document(*(element("Key", name) for name in names)))
    assert [one["Key"] for one in found["Deleted"]] == names
    assert keys(service.lake) == []


def test_a_document_that_nothing_vouches_for_is_refused(service: Service) -> None:
    add_bucket(service.lake, Versioning.DISABLED)
    put(service)
    body = document("<Key>k</Key>")
    with pytest.raises(S3Error) as caught:
        delete_many(service, body, {})
    assert caught.value.code == "InvalidRequest"
    for name, wrong in (("content-md5", 16), ("x-amz-checksum-crc32", 4)):
        with pytest.raises(BadDigest):
            delete_many(service, body, {name: base64.b64encode(bytes(wrong)).decode()})
    assert keys(service.lake) == ["k"]
    md5 = base64.b64encode(hashlib.md5(body).digest()).decode()  # noqa: S324 - as S3 wants it
    assert delete_many(service, body, {"content-md5": md5})["Deleted"] == [{"Key": "k"}]


def test_nothing_is_deleted_in_a_bucket_that_is_not_there(service: Service) -> None:
    with pytest.raises(NoSuchBucket):
        delete_many(service, document("<Key>k</Key>"))
    with pytest.raises(NoSuchBucket):
        delete(service)


def test_a_broken_document_deletes_nothing(service: Service) -> None:
    add_bucket(service.lake, Versioning.DISABLED)
    put(service)
    with pytest.raises(S3Error) as caught:
        delete_many(service, document("<Key>k</Key>")[:-1])
    assert caught.value.code == "MalformedXML"
    assert keys(service.lake) == ["k"]
