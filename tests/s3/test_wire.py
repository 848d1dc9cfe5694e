"""Whatever is sent to the endpoint: it answers as S3 does, never with a fault, and goes on."""

from __future__ import annotations

import asyncio
import logging
import os
from collections import Counter
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path
from random import Random

import pytest

from tests.http.serving import Answer, Client, in_loop, until
from tests.s3.odd_requests import odd_request, spoiled
from tests.s3.wire import BUCKET, Wire, error_code, s3_wire, signed_request
from tests.seglake.lakes import keys

pytestmark = pytest.mark.thorough

SEED = os.environ.get("LAKEBED_SEED", "8")
IS_SEARCHING = os.environ.get("LAKEBED_HYPOTHESIS") == "searching"
REQUESTS = 1500
BATCHES = 40 if IS_SEARCHING else 1
STATUSES = {
    200,
    204,
    206,
    304,
    400,
    403,
    404,
    405,
    408,
    409,
    411,
    412,
    414,
    416,
    417,
    431,
    501,
    505,
}


async def fill(wire: Wire) -> dict[str, str]:
    """An object, a large one, and an upload with a part."""
    objects, uploads = wire.service.lake.objects, wire.service.lake.uploads
    info = objects.put(BUCKET, "key", b"hello world")
    objects.put(BUCKET, "large", bytes(3_000_000))
    upload = uploads.create(BUCKET, "key")
    uploads.put_part(BUCKET, "key", upload.upload_id, 1, b"part")
    return {"version": info.version_id, "upload": upload.upload_id}


async def check_answers(data: bytes, found: bytes) -> int:
    """Of the first answer, its status; 0 if there was none."""
    assert b"HTTP/1.1 500" not in found, (data, found)
    if not found:
        return 0
    reader = asyncio.StreamReader()
    reader.feed_data(found)
    reader.feed_eof()
    client = Client(reader, None)  # type: ignore[arg-type]
    answer = await client.answer(has_body=False)
    while answer.status == 100:
        answer = await client.answer(has_body=False)
    assert answer.status in STATUSES, (data, found)
    assert len(answer.headers["x-amz-request-id"]) == 16, (data, found)
    if answer.status >= 400 and not data.startswith(b"HEAD "):
        body = await reader.readexactly(int(answer.headers["content-length"]))
        error_code(Answer(answer.status, answer.headers, body))
    return answer.status


async def check_still_there(wire: Wire) -> None:
    answer = await wire.ask(signed_request("GET", b"/bucket/untouched"))
    assert (answer.status, answer.body) == (200, b"untouched")
    await until(lambda: not wire.served.server.connection_count)
    assert not wire.served.server._tasks


@pytest.mark.parametrize("is_spoiled", [False, True])
@pytest.mark.parametrize("batch", range(BATCHES))
def test_odd_requests_are_answered_and_nothing_fails(
    batch: int, is_spoiled: bool, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.ERROR)
    seen: Counter[int] = Counter()

    @in_loop
    async def run() -> None:
        random = Random(f"{SEED}-{batch}-{is_spoiled}")
        async with s3_wire(tmp_path) as wire:
            wire.service.lake.objects.put(BUCKET, "untouched", b"untouched")
            names: dict[str, str] = {}
            for number in range(REQUESTS):
                if number % 50 == 0:  # some of the requests delete it
                    names = await fill(wire)
                data = odd_request(random, names)
                if is_spoiled:
                    data = spoiled(random, data)
                seen[await check_answers(data, await wire.exchange(data))] += 1
                if number % 100 == 99:
                    await check_still_there(wire)

    run()
    assert not caplog.records, [record.getMessage() for record in caplog.records]
    expected = {400, 403} if is_spoiled else {200, 204, 206, 400, 403, 404, 405, 412, 501}
    assert expected <= set(seen), seen


def requests_of_one_object(body: bytes) -> list[bytes]:
    path = b"/bucket/one"
    return [
        signed_request("PUT", path, body=body),
        signed_request("GET", path),
        signed_request("HEAD", path),
        signed_request("GET", path, headers={"range": "bytes=1-3"}),
        signed_request("DELETE", path),
        signed_request("GET", path),
    ]


@pytest.mark.parametrize("size", [5, 70_000, 2_000_000])
def test_requests_sent_all_at_once_are_answered_in_order(size: int, tmp_path: Path) -> None:
    body = Random(size).randbytes(size)

    @in_loop
    async def run() -> None:
        async with s3_wire(tmp_path) as wire:
            client = await wire.connect()
            client.send_bytes(b"".join(requests_of_one_object(body)))
            answers = [await client.answer(has_body=number != 2) for number in range(6)]
            assert [one.status for one in answers] == [200, 200, 200, 206, 204, 404]
            assert answers[1].body == body
            assert answers[2].headers["content-length"] == str(size)
            assert answers[3].body == body[1:4]
            assert error_code(answers[5]) == "NoSuchKey"

    run()


LARGE = 3_000_000
UNSIGNED = "UNSIGNED-PAYLOAD"


CONTINUES: dict[str, str] = {"expect": "100-continue"}


@pytest.mark.parametrize("headers", [{}, CONTINUES])
@pytest.mark.parametrize(
    ("path", "spoiled_by", "code"),
    [
        (b"/bucket/new", b"Signature=", "SignatureDoesNotMatch"),
        (b"/bucket/new", b"Credential=", "InvalidAccessKeyId"),
        (b"/nowhere/new", b"", "NoSuchBucket"),
        (b"/bucket/new?tagging", b"", "NotImplemented"),
        (b"/bucket/key?uploadId=none&partNumber=1", b"", "NoSuchUpload"),
        (b"/bucket/key", b"", "PreconditionFailed"),
    ],
)
def test_what_cannot_be_is_refused_before_its_body_which_is_not_taken_for_a_request(
    headers: dict[str, str], path: bytes, spoiled_by: bytes, code: str, tmp_path: Path
) -> None:
    name, _, query = path.partition(b"?")
    pairs = [piece.partition(b"=") for piece in query.split(b"&") if piece]
    head = signed_request(
        "PUT",
        name,
        query=[(one, value) for one, _, value in pairs],
        headers=headers if query else {**headers, "if-none-match": "*"},
        payload=UNSIGNED,
        length=LARGE,
    )
    if spoiled_by:
        place = head.index(spoiled_by) + len(spoiled_by)
        head = head[:place] + b"0" + head[place + 1 :]
    inner = signed_request("DELETE", b"/bucket/key")

    @in_loop
    async def run() -> None:
        async with s3_wire(tmp_path) as wire:
            await fill(wire)
            client = await wire.connect()
            client.send_bytes(head + inner)
            answer = await client.answer()
            assert error_code(answer) == code
            assert answer.headers["connection"] == "close"
            client.send_bytes(inner)
            client.writer.write_eof()
            assert await client.rest() == b""
            assert (await wire.ask(signed_request("GET", b"/bucket/key"))).body == b"hello world"

    run()


@pytest.mark.parametrize(
    ("method", "path", "query"),
    [
        ("PUT", b"/new-bucket", ()),
        ("PUT", b"/bucket", [(b"versioning", b"")]),
        ("POST", b"/bucket", [(b"delete", b"")]),
        ("PUT", b"/bucket/new", ()),
        ("PUT", b"/bucket/key", [(b"partNumber", b"2"), (b"uploadId", b"{upload}")]),
        ("POST", b"/bucket/key", [(b"uploadId", b"{upload}")]),
    ],
)
def test_a_request_whose_signed_body_was_removed_on_the_way_is_refused(
    method: str, path: bytes, query: Sequence[tuple[bytes, bytes]], tmp_path: Path
) -> None:
    @in_loop
    async def run() -> None:
        async with s3_wire(tmp_path) as wire:
            upload_id = (await fill(wire))["upload"].encode()
            data = signed_request(
                method,
                path,
                query=[(name, value.replace(b"{upload}", upload_id)) for name, value in query],
                headers={"content-md5": "1B2M2Y8AsgTpgAmY7PhCfg=="},  # of no bytes
                payload=sha256(b"<a document>").hexdigest(),
            )
            assert error_code(await wire.ask(data)) == "XAmzContentSHA256Mismatch"
            lake = wire.service.lake
            assert [bucket.name for bucket in lake.buckets.list()] == [BUCKET]
            assert keys(lake, BUCKET) == ["key", "large"]
            assert [upload.key for upload in lake.uploads.list(BUCKET).items] == ["key"]

    run()


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (b"GET /" + b"k" * 20_000 + b" HTTP/1.1\r\nHost: a\r\n\r\n", 414),
        (b"GET / HTTP/1.1\r\nHost: a\r\na: " + b"b" * 40_000 + b"\r\n\r\n", 431),
        (b"GET / HTTP/1.1\r\nHost: a\r\n" + b"a: b\r\n" * 300 + b"\r\n", 431),
        (b"GET / HTTP/1.1\r\nHost: a\r\n" + b"a: b\r\n" * 100_000, 431),
        (b"GET /" + b"k" * 500_000, 414),
        (b"\x16\x03\x01\x02\x00\x01" * 100 + b"\r\n\r\n", 400),
    ],
)
def test_what_is_too_long_is_refused_as_s3_does(data: bytes, status: int, tmp_path: Path) -> None:
    @in_loop
    async def run() -> None:
        async with s3_wire(tmp_path) as wire:
            client = await wire.connect()
            client.send_bytes(data)
            answer = await client.answer()
            assert (answer.status, answer.headers["connection"]) == (status, "close")
            assert error_code(answer) == "BadRequest"

    run()
