"""What a failing S3 store's answers mean, from the library's own errors."""

from __future__ import annotations

import socket

import pytest

from lakebed.aof.manifest.records import ReasonCode
from lakebed.aof.tiers.errors import Missing, Tier2Error, Transient, Unauthorised, Unavailable
from lakebed.aof.tiers.object_store import ObjectStore
from lakebed.aof.tiers.object_store_address import open_object_store
from lakebed.aof.tiers.ranges import BytesSource
from lakebed.base.errors import InputError, RetryError
from lakebed.base.retry import is_retryable
from lakebed.kernels.disk import real_disk
from tests.aof.tiers.canned_server import Answer, canned_server
from tests.aof.tiers.conftest import s3_options

pytestmark = pytest.mark.thorough


def open_store(endpoint: str, bucket: str = "tier2", **options: int) -> ObjectStore:
    url = f"s3://{bucket}/somewhere"
    return open_object_store(url, disk=real_disk(), options=s3_options(endpoint, **options))


def error(code: str) -> str:
    return f"<?xml version='1.0'?><Error><Code>{code}</Code><Message>no</Message></Error>"


ANSWERS: list[tuple[int, str, type[Tier2Error]]] = [
    (400, "ExpiredToken", Unauthorised),
    (400, "InvalidToken", Unauthorised),
    (400, "InvalidRequest", Unauthorised),
    (400, "EntityTooLarge", Unauthorised),
    (400, "RequestTimeout", Transient),
    (400, "IncompleteBody", Transient),
    (400, "", Transient),
    (401, "", Unauthorised),
    (403, "AccessDenied", Unauthorised),
    (403, "SignatureDoesNotMatch", Unauthorised),
    (403, "RequestTimeTooSkewed", Unauthorised),
    (403, "", Unauthorised),
    (404, "NoSuchBucket", Unavailable),
    (405, "MethodNotAllowed", Unauthorised),
    (408, "", Transient),
    (409, "OperationAborted", Transient),
    (411, "MissingContentLength", Unauthorised),
    (412, "PreconditionFailed", Unauthorised),
    (413, "", Unauthorised),
    (425, "", Transient),
    (429, "TooManyRequests", Transient),
    (500, "InternalError", Unavailable),
    (502, "", Unavailable),
    (503, "SlowDown", Unavailable),
]


@pytest.mark.parametrize(("status", "code", "kind"), ANSWERS)
def test_an_answer_has_its_meaning_for_every_call(
    status: int, code: str, kind: type[Tier2Error]
) -> None:
    with canned_server(Answer(status, error(code) if code else "")) as server:
        store = open_store(server.endpoint)
        with pytest.raises(kind) as put:
            store.put("a/b", BytesSource(b"x"), metadata={})
        with pytest.raises(kind):
            store.get_range("a/b", offset=0, length=1)
        with pytest.raises(kind):
            store.delete("a/b")
        with pytest.raises(kind):
            list(store.list("a/"))
        if status != 400:  # the answer to HEAD has no body, and so no code
            with pytest.raises(kind):
                store.head("a/b")
    text = str(put.value)
    assert text.startswith("put a/b: ")
    assert "\n" not in text
    assert "secret" not in text


def test_a_missing_object_is_told_from_a_missing_bucket() -> None:
    with canned_server(Answer(404, error("NoSuchKey"))) as server:
        store = open_store(server.endpoint)
        with pytest.raises(Missing):
            store.head("a/b")
        with pytest.raises(Missing):
            store.get_range("a/b", offset=0, length=1)
        store.delete("a/b")
        server.answer = Answer(404, error("NoSuchBucket"))
        for call in (
            lambda: store.head("a/b"),
            lambda: store.get_range("a/b", offset=0, length=1),
            lambda: store.delete("a/b"),
            lambda: store.put("a/b", BytesSource(b""), metadata={}),
        ):
            with pytest.raises(Unavailable):
                call()


@pytest.mark.parametrize(("status", "expected"), [(503, 1), (500, 1), (429, 1)])
def test_the_library_tries_nothing_again_by_itself(status: int, expected: int) -> None:
    with canned_server(Answer(status)) as server:
        store = open_store(server.endpoint)
        with pytest.raises(Tier2Error):
            store.get_range("a/b", offset=0, length=1)
        assert len(server.requests) == expected
        with pytest.raises(Tier2Error):
            store.put("a/b", BytesSource(b"x"), metadata={})
        assert len(server.requests) == 2 * expected


def test_a_server_that_is_not_there_is_unavailable() -> None:
    with socket.create_server(("127.0.0.1", 0)) as unused:
        port = unused.getsockname()[1]
    store = open_store(f"http://127.0.0.1:{port}")
    with pytest.raises(Unavailable):
        store.put("a/b", BytesSource(b"x"), metadata={})
    with pytest.raises(Unavailable):
        list(store.list(""))


def test_a_server_that_does_not_answer_is_given_up() -> None:
    with canned_server(Answer(200, is_silent=True)) as server:
        store = open_store(server.endpoint, request_timeout_ms=100)
        with pytest.raises(Unavailable):
            store.get_range("a/b", offset=0, length=1)


def test_an_answer_that_breaks_off_is_an_error_and_not_a_short_read() -> None:
    with canned_server(Answer(206, "only this", length=100)) as server:
        store = open_store(server.endpoint, request_timeout_ms=500)
        with pytest.raises(Unavailable):
            store.get_range("a/b", offset=0, length=100)


def test_a_store_that_nobody_gave_credentials_for_is_a_matter_for_the_operator(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with canned_server(Answer(404)) as server:
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
            monkeypatch.delenv(name, raising=False)
        monkeypatch.setenv("AWS_METADATA_ENDPOINT", server.endpoint)
        options = s3_options(server.endpoint)
        options = type(options)(endpoint=options.endpoint, region="us-east-1")
        store = open_object_store("s3://tier2", disk=real_disk(), options=options)
        with pytest.raises(Unauthorised):
            store.put("a/b", BytesSource(b"x"), metadata={})


@pytest.mark.parametrize(
    ("kind", "reason", "branch"),
    [
        (Transient, ReasonCode.TRANSIENT, RetryError),
        (Unauthorised, ReasonCode.UNAUTHORISED, InputError),
        (Unavailable, ReasonCode.UNAVAILABLE, RetryError),
        (Missing, ReasonCode.MISSING, InputError),
    ],
)
def test_every_kind_has_its_reason_and_its_branch(
    kind: type[Tier2Error], reason: ReasonCode, branch: type[Exception]
) -> None:
    told = kind("why")
    assert told.reason_code == reason
    assert isinstance(told, branch)
    assert is_retryable(told) == (branch is RetryError)
    assert told.exit_code in (66, 75, 77)


@pytest.mark.process
def test_a_real_server_without_the_bucket_is_unavailable(s3_endpoint: str) -> None:
    store = open_store(s3_endpoint, bucket="no-such-bucket")
    for call in (
        lambda: store.put("a/b", BytesSource(b"x"), metadata={}),
        lambda: store.put("a/b", BytesSource(bytes(20 << 20)), metadata={}),
        lambda: store.head("a/b"),
        lambda: store.get_range("a/b", offset=0, length=1),
        lambda: store.delete("a/b"),
        lambda: list(store.list("")),
    ):
        with pytest.raises(Unavailable, match="NoSuchBucket"):
            call()
