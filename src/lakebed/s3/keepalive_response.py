"""Answers that may take long: begun before they are known, so that no client gives up waiting.

What takes longer than a moment is answered with 200 and white space, which a reader of XML skips,
until the document is there. If it fails then, the document is an error: clients of S3 know that of
the verbs that are answered so. Headers that depend on the result are told only by a quick answer.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Final, TypeVar

from lakebed.http.request import Request
from lakebed.http.response import Response
from lakebed.s3.errors import XML, error_document, to_s3
from lakebed.s3.object_headers import HeaderList
from lakebed.s3.xml_text import DECLARATION

PATIENCE_S: Final = 10.0  # an error told in time is worth more than an early beginning

Result = TypeVar("Result")


async def respond_with_keepalive(
    request: Request,
    work: Awaitable[Result],
    answer: Callable[[Result], tuple[HeaderList, bytes]],
    *,
    patience_s: float = PATIENCE_S,
) -> Response:
    """The document that `answer` makes of what `work` comes to, which ends whoever waits."""
    working = asyncio.ensure_future(work)
    working.add_done_callback(_retrieve_exception)
    done, _ = await asyncio.wait([working], timeout=patience_s)
    if done:
        headers, document = answer(working.result())
        return Response(200, [XML, *headers], document)
    resource = request.raw_path.decode("latin-1")
    body = _keepalive_body(working, answer, request.id, resource, patience_s)
    return Response(200, [XML], body)


async def _keepalive_body(
    working: asyncio.Future[Result],
    answer: Callable[[Result], tuple[HeaderList, bytes]],
    request_id: str,
    resource: str,
    patience_s: float,
) -> AsyncIterator[bytes]:
    declaration = DECLARATION.encode()
    yield declaration
    while not working.done():
        yield b" "
        await asyncio.wait([working], timeout=patience_s)
    try:
        _, document = answer(working.result())
    except Exception as error:  # noqa: BLE001 - the status is told already: this is how errors are
        document = error_document(to_s3(error), request_id=request_id, resource=resource)
    yield document.removeprefix(declaration)


def _retrieve_exception(done: asyncio.Future[Result]) -> None:
    """Whoever was to be told of it may be gone."""
    if not done.cancelled():
        done.exception()
