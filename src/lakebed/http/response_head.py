"""Encodes the head of a response: status line, headers, and the framing of the body."""

from __future__ import annotations

from collections.abc import Sequence
from email.utils import formatdate
from http import HTTPStatus

from lakebed.base.clock import NS_PER_S

CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
CLOSE = "Connection: close\r\n"
KEEP_ALIVE = "Connection: keep-alive\r\n"  # sent to HTTP/1.0 clients only
CHUNKED = "Transfer-Encoding: chunked\r\n"
CHUNKS_END = b"0\r\n\r\n"

_STATUS_LINES = {
    status.value: f"HTTP/1.1 {status.value} {status.phrase}\r\n" for status in HTTPStatus
}
_BODILESS = frozenset({204, 304})


def date_line(wall_ns: int) -> str:
    return f"Date: {formatdate(wall_ns // NS_PER_S, usegmt=True)}\r\n"


def has_body(method: str, status: int) -> bool:
    """Returns whether a response to this method with this status may have a body."""
    return method != "HEAD" and status not in _BODILESS


def framing_line(status: int, *, length: int | None) -> str:
    """Returns the Content-Length line, or "" if `length` is None or the status is 204."""
    if length is None or status == 204:
        return ""
    return f"Content-Length: {length}\r\n"


def encode_head(
    status: int, headers: Sequence[tuple[str, str]], *, date: str, framing: str, connection: str
) -> bytes:
    """Returns the bytes of a response's head.

    Raises `ValueError` if a header contains a line break or NUL, or is not Latin-1.
    """
    lines = "".join([f"{name}: {value}\r\n" for name, value in headers])
    if lines.count("\n") != len(headers) or lines.count("\r") != len(headers) or "\0" in lines:
        raise ValueError("a response header contains a line break or a NUL character")
    status_line = _STATUS_LINES.get(status) or f"HTTP/1.1 {status} \r\n"
    return f"{status_line}{date}{lines}{framing}{connection}\r\n".encode("latin-1")
