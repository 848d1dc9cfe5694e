"""Answers that take long are begun before they are known."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterable, Awaitable, Callable

import pytest

from lakebed.base.simulation.clock import SimulatedClock
from lakebed.edge.failures import Failures
from lakebed.http.response import Response
from lakebed.s3.errors import S3Error, response_of
from lakebed.s3.keepalive_response import respond_with_keepalive
from tests.s3.calls import REQUEST_ID, header, request

LOGGER = logging.getLogger("tests.s3")
DOCUMENT = b'<?xml version="1.0" encoding="UTF-8"?>\n<Done/>'


def answer(word: str) -> tuple[list[tuple[str, str]], bytes]:
    return [("x-amz-version-id", word)], DOCUMENT


async def succeed() -> str:
    return "17"


async def fail() -> str:
    raise S3Error("InvalidPart", "no such part")


async def answered(work: Awaitable[str], patience_s: float) -> Response:
    return await respond_with_keepalive(
        request("POST", "/b/%3Cfigs%3E%20%C3%A9"),
        work,
        answer,
        failures=Failures(response_of, logger=LOGGER, clock=SimulatedClock()),
        patience_s=patience_s,
    )


def test_what_is_quick_is_told_with_its_headers() -> None:
    response = asyncio.run(answered(succeed(), 60))
    assert (response.status, response.body) == (200, DOCUMENT)
    assert header(response, "x-amz-version-id") == "17"


def test_what_fails_quickly_is_an_error() -> None:
    with pytest.raises(S3Error):
        asyncio.run(answered(fail(), 60))


async def slowly(outcome: Callable[[], Awaitable[str]]) -> list[bytes]:
    """All pieces, of work that goes on once two of them came."""
    may_end = asyncio.Event()

    async def work() -> str:
        await may_end.wait()
        return await outcome()

    response = await answered(work(), 0)
    assert response.status == 200
    assert response.length is None
    assert isinstance(response.body, AsyncIterable)
    pieces = []
    async for piece in response.body:
        pieces.append(bytes(piece))
        if len(pieces) == 2:
            may_end.set()
    return pieces


def test_what_is_slow_is_begun_with_white_space() -> None:
    pieces = asyncio.run(slowly(succeed))
    assert pieces[1] == b" "
    assert b"".join(pieces).replace(b" <", b"<").replace(b"\n ", b"\n").startswith(b"<?xml")
    assert b"".join(pieces).replace(b" ", b"") == DOCUMENT.replace(b" ", b"")


def test_what_fails_late_is_a_document() -> None:
    whole = b"".join(asyncio.run(slowly(fail)))
    assert b"<Error><Code>InvalidPart</Code><Message>no such part</Message>" in whole
    assert REQUEST_ID.encode() in whole
    assert "<Resource>/b/&lt;figs&gt; é</Resource>".encode() in whole


def test_a_late_failure_inside_the_server_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    async def break_down() -> str:
        raise ZeroDivisionError("inner details")

    asyncio.run(slowly(fail))
    assert caplog.messages == [], "the client's own mistakes are not logged"
    assert b"inner" not in b"".join(asyncio.run(slowly(break_down)))
    assert caplog.messages[0].startswith("request_failed")
    assert "ZeroDivisionError: inner details" in caplog.messages[0]


def test_what_was_begun_ends_also_if_nobody_waits_for_it_any_more() -> None:
    may_end, has_ended = asyncio.Event(), asyncio.Event()

    async def work() -> str:
        await may_end.wait()
        has_ended.set()
        return "17"

    async def run() -> None:
        waiting = asyncio.ensure_future(answered(work(), 60))
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.wait([waiting])
        may_end.set()
        await has_ended.wait()

    asyncio.run(run())
