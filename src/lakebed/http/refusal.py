"""Error responses of the HTTP server itself: to malformed, unsupported, too large or too slow
requests, to connections over the limit, and to requests whose handler failed.
"""

from __future__ import annotations

from http import HTTPStatus
from typing import NamedTuple

from lakebed.base.errors import InputError
from lakebed.http.request import Request
from lakebed.http.response import Response


class Refused(InputError):
    """A request is malformed, unsupported, too large or too slow, or there are too many
    connections. The server responds with `status` and closes the connection.
    """

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status
        self.reason = reason


class Refusal(NamedTuple):
    """An error response of the HTTP server itself: its status, its reason and the request."""

    status: int
    reason: str
    request_id: str
    request: (
        Request | None
    )  # None if no handler was called; otherwise the body is malformed or the handler failed


def plain_text(refusal: Refusal) -> Response:
    """Returns a plain-text response that reports the refusal.

    This function is the default of a server's `on_refusal`.
    """
    phrase = HTTPStatus(refusal.status).phrase
    text = f"{refusal.status} {phrase}: {refusal.reason}\n"
    headers = [("Content-Type", "text/plain; charset=utf-8")]
    return Response(refusal.status, headers, text.encode(), closes=True)
