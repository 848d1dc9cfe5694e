"""Answers that take long are begun before they are known."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterable, Callable
from typing import Any

import pytest

from lakebed.http.response import Response
from lakebed.s3.errors import S3Error
from lakebed.s3.patience import answer_patiently
from lakebed.s3.service import Service
from tests.s3.calls import REQUEST_ID, header, request

DOCUMENT = b'<?xml version="1.0" encoding="UTF-8"?>\n<Done/>'


def answer(word: str) -> tuple[list[tuple[str, str]], bytes]:
    return [("x-amz-version-id", word)], DOCUMENT


def answered(service: Service, work: Callable[[], str], patience_s: float) -> Any:
    return answer_patiently(service, request("POST", "/b/k"), work, answer, patience_s=patience_s)


def test_what_is_quick_is_told_with_its_headers(service: Service) -> None:
    response: Response = asyncio.run(answered(service, lambda: "17", 60))
    assert (response.status, response.body) == (200, DOCUMENT)
    assert header(response, "x-amz-version-id") == "17"


def test_what_fails_quickly_is_an_error(service: Service) -> None:
    def fail() -> str:
        raise S3Error("InvalidPart", "no such part")

    with pytest.raises(S3Error):
        asyncio.run(answered(service, fail, 60))


async def slowly(service: Service, outcome: Callable[[], str]) -> list[bytes]:
    """All pieces, of work that goes on once two of them came."""
    may_end = threading.Event()

    def work() -> str:
        may_end.wait()
        return outcome()

    response = await answered(service, work, 0)
    assert response.status == 200
    assert response.length is None
    assert isinstance(response.body, AsyncIterable)
    pieces = []
    async for piece in response.body:
        pieces.append(bytes(piece))
        if len(pieces) == 2:
            may_end.set()
    return pieces


def test_what_is_slow_is_begun_with_white_space(service: Service) -> None:
    pieces = asyncio.run(slowly(service, lambda: "17"))
    assert pieces[1] == b" "
    assert b"".join(pieces).replace(b" <", b"<").replace(b"\n ", b"\n").startswith(b"<?xml")
    assert b"".join(pieces).replace(b" ", b"") == DOCUMENT.replace(b" ", b"")


def test_what_fails_late_is_a_document(service: Service) -> None:
    def fail() -> str:
        raise S3Error("InvalidPart", "no such part")

    whole = b"".join(asyncio.run(slowly(service, fail)))
    assert b"<Error><Code>InvalidPart</Code><Message>no such part</Message>" in whole
    assert REQUEST_ID.encode() in whole
