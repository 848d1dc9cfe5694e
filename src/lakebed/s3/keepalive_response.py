"""Responses that start before their result is known, so that clients do not time out.

If the work takes longer than `PATIENCE_S`, the response starts with status 200 and sends white
space, which XML parsers skip, until the document is ready. If the work fails after that, the
document is an error; S3 clients expect that for copies and completed uploads. Headers that depend
on the result are sent only if the work finishes within `PATIENCE_S`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Final, TypeVar

from lakebed.edge.failures import Failures
from lakebed.http.request import Request
from lakebed.http.response import Response
from lakebed.s3.errors import XML, error_document, resource_of, to_s3
from lakebed.s3.object_headers import HeaderList
from lakebed.s3.xml_text import DECLARATION

PATIENCE_S: Final = 10.0  # long enough that most errors still get their own status

Result = TypeVar("Result")


async def respond_with_keepalive(
    request: Request,
    work: Awaitable[Result],
    answer: Callable[[Result], tuple[HeaderList, bytes]],
    *,
    failures: Failures,
    patience_s: float = PATIENCE_S,
) -> Response:
    """Waits for `work` and returns a response with the headers and document of its result.

    `answer` builds these from the result. If the work fails within `patience_s` seconds, raises its
    error. If it takes longer, the response lacks these headers, its body waits for the work, and a
    later error is passed to `failures`. The work runs to its end even if the client disconnects.
    """
    working = asyncio.ensure_future(work)
    working.add_done_callback(_retrieve_exception)
    done, _ = await asyncio.wait([working], timeout=patience_s)
    if done:
        headers, document = answer(working.result())
        return Response(200, [XML, *headers], document)
    body = _keepalive_body(working, answer, request, failures, patience_s)
    return Response(200, [XML], body)


async def _keepalive_body(
    working: asyncio.Future[Result],
    answer: Callable[[Result], tuple[HeaderList, bytes]],
    request: Request,
    failures: Failures,
    patience_s: float,
) -> AsyncIterator[bytes]:
    declaration = DECLARATION.encode()
    yield declaration
    while not working.done():
        yield b" "
        await asyncio.wait([working], timeout=patience_s)
    try:
        _, document = answer(working.result())
    except Exception as error:  # noqa: BLE001 - the status was sent: the document has the error
        failures.note_in_body([error], request)
        resource = resource_of(request)
        document = error_document(to_s3(error), request_id=request.id, resource=resource)
    yield document.removeprefix(declaration)


def _retrieve_exception(done: asyncio.Future[Result]) -> None:
    """Keeps asyncio from logging the exception if the client disconnected and no task awaits it."""
    if not done.cancelled():
        done.exception()
