"""A response as a handler returns it."""

from __future__ import annotations

from collections.abc import AsyncIterable, Sequence
from typing import NamedTuple

from lakebed.base.layout import Buffer


class FileSlice(NamedTuple):
    """A range of bytes of an open file, sent with `sendfile` if possible.

    The handler owns the descriptor and must keep it open until the next piece is requested.
    """

    descriptor: int
    offset: int
    length: int


Piece = Buffer | FileSlice
ResponseBody = Buffer | AsyncIterable[Piece]


class Response:
    """A response that a handler returns.

    A body that comes in pieces is sent with chunked encoding unless `length` is set. To an HTTP/1.0
    client, a body without `length` is sent plainly, and the connection is closed after it. No body
    is sent to a HEAD request or with status 204 or 304; then `length` only sets Content-Length,
    which a 204 never has.
    """

    __slots__ = ("body", "closes", "headers", "length", "status")

    def __init__(
        self,
        status: int,
        headers: Sequence[tuple[str, str]] = (),
        body: ResponseBody = b"",
        *,
        length: int | None = None,
        closes: bool = False,
    ) -> None:
        self.status = status
        self.headers = headers  # without Content-Length, Transfer-Encoding, Connection, Date
        self.body = body
        self.length = length
        self.closes = closes  # whether to close the connection after the response
