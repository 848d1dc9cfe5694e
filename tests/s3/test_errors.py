"""How errors are told: every one of the store has a code, and every code a status."""

from __future__ import annotations

import errno
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import lakebed.s3
from lakebed.base import errors as base
from lakebed.base.errors import LakebedError, from_os_error
from lakebed.s3.errors import ERROR_TEXTS, HOST_ID, STATUSES, S3Error, response_of, to_s3
from lakebed.seglake import errors as engine
from lakebed.seglake.conditions import NotModified
from tests.s3.calls import REQUEST_ID, document, header, request

SOME_FILE = "/srv/secret/objects/segments/1.seg"

CASES: list[tuple[LakebedError, str, int]] = [
    (engine.NoSuchBucket("x"), "NoSuchBucket", 404),
    (engine.NoSuchKey("x"), "NoSuchKey", 404),
    (engine.NoSuchVersion("x"), "NoSuchVersion", 404),
    (engine.NoSuchUpload("x"), "NoSuchUpload", 404),
    (engine.NoSuchAccessKey("x"), "InvalidAccessKeyId", 403),
    (engine.SecretKeyMismatch("x", path=SOME_FILE), "InternalError", 500),
    (engine.MethodNotAllowed("x", marker_id="m"), "MethodNotAllowed", 405),
    (engine.BucketExists("x"), "BucketAlreadyOwnedByYou", 409),
    (engine.BucketNotEmpty("x"), "BucketNotEmpty", 409),
    (engine.ReservedBucket("x"), "AccessDenied", 403),
    (engine.MetadataLost("x", path=SOME_FILE), "InternalError", 500),
    (engine.BadBucketName("x"), "InvalidBucketName", 400),
    (engine.BadKey("x"), "KeyTooLongError", 400),
    (engine.BadState("x"), "IllegalVersioningConfigurationException", 400),
    (engine.PreconditionFailed("x"), "PreconditionFailed", 412),
    (engine.ConditionConflict("x"), "ConditionalRequestConflict", 409),
    (engine.BadDigest("x"), "BadDigest", 400),
    (engine.BadSize("x"), "IncompleteBody", 400),
    (engine.BadPart("x"), "InvalidPart", 400),
    (engine.BadPartOrder("x"), "InvalidPartOrder", 400),
    (engine.PartTooSmall("x"), "EntityTooSmall", 400),
    (engine.BadRange("x", size=7), "InvalidRange", 416),
    (engine.Damaged("x", path=SOME_FILE), "InternalError", 500),
    (NotModified("x"), "NotModified", 304),
    (base.InputError("x"), "InvalidRequest", 400),
    (base.BadConfig("x"), "InternalError", 500),
    (base.BadName(SOME_FILE), "InternalError", 500),
    (base.TooLarge("x", size=9, limit=8), "EntityTooLarge", 400),
    (base.NotFound(SOME_FILE), "InternalError", 500),
    (base.AlreadyExists(SOME_FILE), "InternalError", 500),
    (base.RetryError("x"), "SlowDown", 503),
    (base.Busy("x"), "SlowDown", 503),
    (base.Locked(SOME_FILE), "ServiceUnavailable", 503),
    (base.NoSpace(SOME_FILE), "InsufficientStorage", 507),
    (base.TooManyFiles(SOME_FILE), "SlowDown", 503),
    (base.OutcomeUnknown("x"), "InternalError", 500),
    (base.DataError("x", path=SOME_FILE), "InternalError", 500),
    (base.Torn("x", path=SOME_FILE), "InternalError", 500),
    (base.Corrupt("x", path=SOME_FILE), "InternalError", 500),
    (base.UnknownVersion("x", path=SOME_FILE), "InternalError", 500),
    (base.DiskError("read", SOME_FILE), "InternalError", 500),
    (base.WriteFailed("write", SOME_FILE), "InternalError", 500),
    (base.SyncFailed("fsync", SOME_FILE), "InternalError", 500),
    (base.Poisoned("write", SOME_FILE), "InternalError", 500),
    (base.Closed("x"), "ServiceUnavailable", 503),
    (LakebedError("x"), "InternalError", 500),
]


def reported(error: BaseException, *, method: str = "GET") -> tuple[int, dict[str, str]]:
    """The status, and the elements of the document."""
    response = response_of(error, request(method, "/b/k"))
    found = document(response)
    assert found.tag == "Error"
    return response.status, {child.tag: child.text or "" for child in found}


def _errors_of_the_store() -> Iterator[type[LakebedError]]:
    for module in (base, engine):
        for kind in vars(module).values():
            if isinstance(kind, type) and issubclass(kind, LakebedError):
                yield kind


def test_every_error_of_the_store_is_among_these_cases() -> None:
    assert set(_errors_of_the_store()) <= {type(error) for error, _, _ in CASES}


@pytest.mark.parametrize(("error", "code", "status"), CASES)
def test_an_error_is_told_by_its_code(error: LakebedError, code: str, status: int) -> None:
    found = to_s3(error)
    assert found.code == code
    assert response_of(error, request("GET", "/b/k")).status == status


@pytest.mark.parametrize(("error", "code", "status"), CASES)
def test_no_file_of_the_store_is_named_to_a_client(
    error: LakebedError, code: str, status: int
) -> None:
    body = response_of(error, request("GET", "/b/k")).body
    assert isinstance(body, bytes)
    assert b"secret" not in body
    assert code == "NotModified" or b"<Message>" in body


def test_what_the_system_refuses_is_told_without_its_path() -> None:
    for code in (errno.ENOENT, errno.EEXIST, errno.EIO, errno.ENOSPC, errno.ENAMETOOLONG):
        error = from_os_error(OSError(code, "no"), operation="open", path=SOME_FILE)
        status, fields = reported(error)
        assert status >= 500
        assert SOME_FILE not in fields["Message"]


def test_every_code_that_is_used_has_a_status() -> None:
    text = "".join(path.read_text() for path in Path(next(iter(lakebed.s3.__path__))).rglob("*.py"))
    used = set(re.findall(r"""(?:S3Error|Told|Absent|_invalid|_refused)\(\s*"([A-Z]\w+)\"""", text))
    assert "NoSuchBucketPolicy" in used
    assert "SignatureDoesNotMatch" in used
    assert used <= set(STATUSES)
    assert {told.code for told in ERROR_TEXTS.values()} <= set(STATUSES)


def test_the_document_names_the_request_and_what_it_was_about() -> None:
    status, fields = reported(engine.NoSuchKey("x"))
    assert status == 404
    assert fields == {
        "Code": "NoSuchKey",
        "Message": "The specified key does not exist.",
        "Resource": "/b/k",
        "RequestId": REQUEST_ID,
        "HostId": HOST_ID,
    }


def test_details_and_headers_of_an_error_are_told() -> None:
    error = S3Error(
        "InvalidArgument", "a < b & c", details=[("ArgumentName", "x")], headers=[("a", "b")]
    )
    response = response_of(error, request("GET", "/b/<k>\x01"))
    assert header(response, "a") == "b"
    assert b"<ArgumentName>x</ArgumentName>" in bytes(response.body)  # type: ignore[arg-type]
    assert b"a &lt; b &amp; c" in bytes(response.body)  # type: ignore[arg-type]
    assert "/b/&lt;k&gt;\ufffd".encode() in bytes(response.body)  # type: ignore[arg-type]


def test_a_head_has_no_body() -> None:
    response = response_of(engine.NoSuchKey("x"), request("HEAD", "/b/k"))
    assert (response.status, response.body) == (404, b"")


def test_what_is_not_modified_has_no_body_and_no_type() -> None:
    response = response_of(NotModified("x"), request("GET", "/b/k"))
    assert (response.status, response.body, list(response.headers)) == (304, b"", [])


def test_a_delete_marker_in_the_way_is_named() -> None:
    hidden = response_of(engine.NoSuchKey("x", marker_id="m"), request("GET", "/b/k"))
    assert header(hidden, "x-amz-delete-marker") == "true"
    assert header(hidden, "x-amz-version-id") == "m"
    asked = response_of(engine.MethodNotAllowed("x", marker_id="m"), request("HEAD", "/b/k"))
    assert header(asked, "x-amz-delete-marker") == "true"
    assert header(asked, "Allow") == "DELETE"
    missing = response_of(engine.NoSuchKey("x"), request("GET", "/b/k"))
    assert header(missing, "x-amz-delete-marker") is None


def test_a_range_outside_the_object_tells_its_size() -> None:
    response = response_of(engine.BadRange("x", size=7), request("GET", "/b/k"))
    assert header(response, "Content-Range") == "bytes */7"


def test_what_is_too_large_tells_the_limit() -> None:
    _, fields = reported(base.TooLarge("x", size=9, limit=8))
    assert (fields["ProposedSize"], fields["MaxSizeAllowed"]) == ("9", "8")
    _, fields = reported(base.TooLarge("x", size=None, limit=8))
    assert ("ProposedSize" in fields, fields["MaxSizeAllowed"]) == (False, "8")


def test_an_error_of_the_program_is_an_internal_one() -> None:
    status, fields = reported(ValueError(SOME_FILE))
    assert (status, fields["Code"]) == (500, "InternalError")
    assert SOME_FILE not in fields["Message"]


def test_an_error_that_mistrusts_the_rest_closes_the_connection() -> None:
    assert response_of(S3Error("InvalidURI", "x", closes=True), request("GET", "/")).closes
    assert not response_of(S3Error("InvalidURI", "x"), request("GET", "/")).closes
