"""Refusals by the protocol itself: a malformed request, or a connection over the limit."""

from __future__ import annotations

from http import HTTPStatus
from typing import NamedTuple

from lakebed.base.errors import InputError
from lakebed.http.request import Request
from lakebed.http.response import Response


class Refused(InputError):
    """Raised while a request is parsed. The connection responds with `status` and closes."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status
        self.reason = reason


class Refusal(NamedTuple):
    """The facts that a refusal's response reports. The connection always ends after it."""

    status: int
    reason: str
    request_id: str
    request: (
        Request | None
    )  # None if it could not be parsed; else its body is malformed or its handler failed


def plain_text(refusal: Refusal) -> Response:
    """Renders a refusal as plain text, the default."""
    phrase = HTTPStatus(refusal.status).phrase
    text = f"{refusal.status} {phrase}: {refusal.reason}\n"
    headers = [("Content-Type", "text/plain; charset=utf-8")]
    return Response(refusal.status, headers, text.encode(), closes=True)
