"""A response, as a handler gives it."""

from __future__ import annotations

from collections.abc import AsyncIterable, Sequence
from typing import NamedTuple

from lakebed.base.layout import Buffer


class FileSlice(NamedTuple):
    """Bytes of an open file, sent without passing through this process where that is possible.

    The descriptor stays the giver's: it must be open until the next piece is asked for.
    """

    descriptor: int
    offset: int
    length: int


Piece = Buffer | FileSlice
ResponseBody = Buffer | AsyncIterable[Piece]


class Response:
    """`length` is needed for a body that comes in pieces, unless it is to be sent chunked.

    For a HEAD, or a status that has no body, `length` is what is told, and the body is not sent.
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
        self.closes = closes  # whether the connection ends after it
