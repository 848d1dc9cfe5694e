"""A response as a handler returns it."""

from __future__ import annotations

from collections.abc import AsyncIterable, Sequence
from typing import NamedTuple

from lakebed.base.layout import Buffer


class FileSlice(NamedTuple):
    """Bytes of an open file, sent with sendfile where that is possible.

    The descriptor belongs to the handler, which must keep it open until the next piece is
    requested.
    """

    descriptor: int
    offset: int
    length: int


Piece = Buffer | FileSlice
ResponseBody = Buffer | AsyncIterable[Piece]


class Response:
    """A body that comes in pieces needs a `length`, or is sent chunked.

    For a HEAD, or a status without a body, `length` is only announced, and no body is sent.
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
        self.closes = closes  # whether to close the connection after it
