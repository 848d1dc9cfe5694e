"""Builds a response from what a handler returns: a document, None, or a complete response."""

from __future__ import annotations

from typing import Any, Final

from lakebed.api import media
from lakebed.api.problems import RETRY_AFTER_S, Refused, Unauthenticated, problem_of
from lakebed.base.errors import LakebedError, RetryError
from lakebed.http.refusal import Refusal
from lakebed.http.response import Response
from lakebed.http_api.call import Call, UnsupportedMedia
from lakebed.http_api.router import NoSuchMethod, NoSuchPath

Answer = object  # a response, None for an empty one, or a value to encode

_STATUSES: Final = {NoSuchPath: 404, NoSuchMethod: 405, UnsupportedMedia: 415}


def response_of(answer: Answer, call: Call) -> Response:
    if isinstance(answer, Response):
        return answer
    if answer is None:
        return Response(call.operation.status)
    kind = media.MSGPACK if call.accepts(media.MSGPACK) else media.JSON
    body = media.encode(answer, kind)
    return Response(call.operation.status, [("Content-Type", kind)], body)


def problem_response(error: LakebedError, *, request_id: str, closes: bool = False) -> Response:
    document = problem_of(error, request_id=request_id)
    document["status"] = _STATUSES.get(type(error), document["status"])
    response = _problem_document(document, closes=closes)
    if isinstance(error, NoSuchMethod):
        response.headers = [*response.headers, ("Allow", ", ".join(error.allowed))]
    if isinstance(error, Unauthenticated):
        challenge = ("WWW-Authenticate", 'Basic realm="lakebed", charset="UTF-8"')
        response.headers = [*response.headers, challenge]
    return response


def refusal_response(refusal: Refusal) -> Response:
    """Returns the response to a request that the HTTP protocol layer refused.

    The connection is closed after the response.
    """
    error: LakebedError = Refused(refusal.reason)
    if refusal.status == 503:
        error = RetryError(refusal.reason)
    elif refusal.status == 500:
        error = LakebedError(refusal.reason)
    document = problem_of(error, request_id=refusal.request_id)
    document["status"] = refusal.status
    return _problem_document(document, closes=True)


def _problem_document(document: dict[str, Any], *, closes: bool) -> Response:
    status = document["status"]
    headers = [("Content-Type", media.PROBLEM)]
    if status in RETRY_AFTER_S:
        headers.append(("Retry-After", str(RETRY_AFTER_S[status])))
    return Response(status, headers, media.encode(document, media.JSON), closes=closes)
