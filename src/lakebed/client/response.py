"""Reads HTTP/1.1 responses from a socket. The size of a head is limited, and so is the size of a
body unless it is read in pieces.

Reading a response ends in one of three ways: it is complete; it is cut, because the connection
ended early (raises `Failure`); or it is malformed, because it is not HTTP, is too long or is not
from our server (raises `BadAnswer`). A response must announce its length: otherwise a cut response
could not be distinguished from a complete one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from lakebed.base.units import KIB
from lakebed.client.errors import BadAnswer, Failure
from lakebed.client.sockets import Socket

HEAD_BYTES_MAX = 64 * KIB
PIECE_BYTES = 256 * KIB

_END = b"\r\n\r\n"
_LINE_END = b"\r\n"
_CHUNK_LINE_BYTES_MAX = 1 * KIB
_LENGTH_DIGITS_MAX = 18
_HEXADECIMAL = re.compile(rb"[0-9A-Fa-f]{1,15}")
_BODILESS = frozenset({204, 304})


class Head(NamedTuple):
    status: int
    headers: Mapping[str, str]  # by lower-case name
    length: int | None  # of the body; None if chunked
    is_last: bool  # the server closes the connection after this response


class ResponseReader:
    """Reads the responses of one connection, one after the other. Not thread-safe."""

    def __init__(self, sock: Socket) -> None:
        self._socket = sock
        self._held = b""  # received but not used

    def head(self) -> Head:
        """Returns the head of the next final response, and skips informational (1xx) ones."""
        while True:
            lines = self._take_until(_END, HEAD_BYTES_MAX).split(_LINE_END)
            status, is_old = _status_of(lines[0])
            if status >= 200:
                return _head_of(status, lines[1:], is_old=is_old)

    def body(self, head: Head, *, bytes_max: int) -> bytes | bytearray:
        """Returns the whole body of a response. Raises `BadAnswer` if it is longer than
        `bytes_max`."""
        if head.length is None:
            return self._chunked_body(bytes_max)
        if head.length > bytes_max:
            raise BadAnswer(f"the response has {head.length} bytes; the maximum is {bytes_max}")
        held = self._held
        if len(held) == head.length:  # the usual case
            self._held = b""
            return held
        if len(held) > head.length:
            return self._take(head.length)
        self._held = b""
        body = bytearray(head.length)
        body[: len(held)] = held
        self._fill(memoryview(body)[len(held) :])
        return body

    def pieces(self, head: Head) -> Iterator[bytes]:
        """Yields the body of a response in pieces. The body may have any length."""
        if head.length is None:
            yield from self._chunks()
            return
        left = head.length
        while left:
            piece = self._take_some(left)
            left -= len(piece)
            yield piece

    def _chunked_body(self, bytes_max: int) -> bytes:
        pieces, size = [], 0
        for piece in self._chunks():
            size += len(piece)
            if size > bytes_max:
                raise BadAnswer(f"the response has more than {bytes_max} bytes, the maximum")
            pieces.append(piece)
        return b"".join(pieces)

    def _chunks(self) -> Iterator[bytes]:
        while left := self._chunk_length():
            while left:
                piece = self._take_some(left)
                left -= len(piece)
                yield piece
            if self._take_until(_LINE_END, len(_LINE_END)):
                raise BadAnswer("a chunk of the response is longer than the size that it announces")
        while self._take_until(_LINE_END, HEAD_BYTES_MAX):
            pass  # trailers

    def _chunk_length(self) -> int:
        text = self._take_until(_LINE_END, _CHUNK_LINE_BYTES_MAX).partition(b";")[0].strip()
        if not _HEXADECIMAL.fullmatch(text):  # stricter than int(): no sign, no prefix
            raise BadAnswer("the response has a chunk without a valid size")
        return int(text, 16)

    # Bytes.

    def _take_until(self, mark: bytes, size_max: int) -> bytes:
        """Returns the received bytes before `mark`, and drops `mark`. Raises `BadAnswer` if it is
        not found within about `size_max` bytes."""
        searched = 0
        while (index := self._held.find(mark, searched)) < 0:
            if len(self._held) >= size_max + len(mark):
                raise BadAnswer(
                    "the response is not from a Lakebed store: its head, or a line of its chunked "
                    "body, is too long"
                )
            searched = max(0, len(self._held) - len(mark) + 1)
            self._held += self._receive()
        data, self._held = self._held[:index], self._held[index + len(mark) :]
        return data

    def _take_some(self, size_max: int) -> bytes:
        if not self._held:
            self._held = self._receive()
        return self._take(min(size_max, len(self._held)))

    def _take(self, size: int) -> bytes:
        data, self._held = self._held[:size], self._held[size:]
        return data

    def _fill(self, target: memoryview) -> None:
        while target:
            count = self._socket.recv_into(target)
            if not count:
                raise _cut()
            target = target[count:]

    def _receive(self) -> bytes:
        data = self._socket.recv(PIECE_BYTES)
        if not data:
            raise _cut()
        return data

    @property
    def is_clean(self) -> bool:
        """Whether all received bytes belonged to responses that were read."""
        return not self._held


def _cut() -> Failure:
    return Failure("the connection was closed before the response was complete", is_sent=True)


def _status_of(line: bytes) -> tuple[int, bool]:
    """Returns the status code of a status line, and whether its version is HTTP/1.0."""
    version, _, status_and_reason = line.partition(b" ")
    status = status_and_reason[:3]
    if version not in (b"HTTP/1.1", b"HTTP/1.0") or not status.isdigit() or len(status) != 3:
        raise BadAnswer("the response is not from a Lakebed store: it is not HTTP/1.1")
    return int(status), version == b"HTTP/1.0"


def _head_of(status: int, lines: list[bytes], *, is_old: bool) -> Head:
    headers: dict[str, str] = {}
    for line in lines:
        name, colon, value = line.partition(b":")
        if not colon or not name or name != name.strip():
            raise BadAnswer("the response is not from a Lakebed store: its headers are malformed")
        lower_name = name.decode("latin-1").lower()
        if lower_name in headers and lower_name in ("content-length", "transfer-encoding"):
            raise BadAnswer(f"the response has the header {lower_name} twice")
        headers[lower_name] = value.strip().decode("latin-1")
    is_last = is_old or "close" in headers.get("connection", "").lower()
    return Head(status, headers, _length_of(status, headers), is_last)


def _length_of(status: int, headers: Mapping[str, str]) -> int | None:
    if status in _BODILESS:
        return 0
    coding, length = headers.get("transfer-encoding"), headers.get("content-length")
    if coding is not None:
        if coding.lower() != "chunked" or length is not None:
            raise BadAnswer("the transfer encoding of the response is not supported")
        return None
    if length is None:
        raise BadAnswer("the response does not announce its length")
    if not length.isascii() or not length.isdigit() or len(length) > _LENGTH_DIGITS_MAX:
        raise BadAnswer("the Content-Length of the response is not a number")
    return int(length)
