"""What the protocol itself refuses: a request that cannot be read, or is not waited for."""

from __future__ import annotations

from http import HTTPStatus
from typing import NamedTuple

from lakebed.base.errors import InputError
from lakebed.http.request import Request
from lakebed.http.response import Response


class Refused(InputError):
    """Raised where a request is read; the connection answers with `status` and closes."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status
        self.reason = reason


class Refusal(NamedTuple):
    """What is to be told. The connection ends after it, whatever the response says."""

    status: int
    reason: str
    request_id: str
    request: Request | None  # if there was one: its body is broken, or its handler failed


def plain_text(refusal: Refusal) -> Response:
    """How a refusal is told by default."""
    phrase = HTTPStatus(refusal.status).phrase
    text = f"{refusal.status} {phrase}: {refusal.reason}\n"
    headers = [("Content-Type", "text/plain; charset=utf-8")]
    return Response(refusal.status, headers, text.encode(), closes=True)
