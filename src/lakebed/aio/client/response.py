# Made by `python -m tools.asynced` of `src/lakebed/client/response.py`: edit that.
"""One answer of HTTP/1.1, read from a socket; its head has a limit, its body one that is given.

An answer ends in three ways: whole, cut (the connection ended before it: a `Failure`), or wrong
(`BadAnswer`: no HTTP, too long, or not as ours are). An answer must say how long it is: one that
ends with its connection could not be told from one that was cut.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Mapping
from typing import NamedTuple

from lakebed.aio.client.sockets import Socket
from lakebed.base.units import KIB
from lakebed.client.errors import BadAnswer, Failure

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
    headers: Mapping[str, str]  # names in lower case
    length: int | None  # of the body; None if it comes in chunks
    is_last: bool  # the connection ends behind it


class ResponseReader:
    """Of one connection, an answer after the other. Not thread-safe."""

    def __init__(self, sock: Socket) -> None:
        self._socket = sock
        self._held = b""  # read, and not used

    async def head(self) -> Head:
        """Of the next answer; those that are only informational are passed over."""
        while True:
            lines = (await self._take_until(_END, HEAD_BYTES_MAX)).split(_LINE_END)
            status, is_old = _status_of(lines[0])
            if status >= 200:
                return _head_of(status, lines[1:], is_old=is_old)

    async def body(self, head: Head, *, bytes_max: int) -> bytes | bytearray:
        """All of it."""
        if head.length is None:
            return await self._chunked_body(bytes_max)
        if head.length > bytes_max:
            raise BadAnswer(f"an answer of {head.length} bytes; at most {bytes_max} are taken")
        held = self._held
        if len(held) == head.length:  # as it is, nearly always
            self._held = b""
            return held
        if len(held) > head.length:
            return self._take(head.length)
        self._held = b""
        found = bytearray(head.length)
        found[: len(held)] = held
        await self._fill(memoryview(found)[len(held) :])
        return found

    async def pieces(self, head: Head) -> AsyncIterator[bytes]:
        """The same of any length, piece by piece."""
        if head.length is None:
            async for item in self._chunks():
                yield item
            return
        left = head.length
        while left:
            piece = await self._take_some(left)
            left -= len(piece)
            yield piece

    async def _chunked_body(self, bytes_max: int) -> bytes:
        pieces, size = [], 0
        async for piece in self._chunks():
            size += len(piece)
            if size > bytes_max:
                raise BadAnswer(f"an answer of more than the {bytes_max} bytes that are taken")
            pieces.append(piece)
        return b"".join(pieces)

    async def _chunks(self) -> AsyncIterator[bytes]:
        while left := await self._chunk_length():
            while left:
                piece = await self._take_some(left)
                left -= len(piece)
                yield piece
            if await self._take_until(_LINE_END, len(_LINE_END)):
                raise BadAnswer("a chunk of the answer is longer than it says")
        while await self._take_until(_LINE_END, HEAD_BYTES_MAX):
            pass  # trailers

    async def _chunk_length(self) -> int:
        text = (await self._take_until(_LINE_END, _CHUNK_LINE_BYTES_MAX)).partition(b";")[0].strip()
        if not _HEXADECIMAL.fullmatch(text):  # no sign, no prefix: what is a number to everybody
            raise BadAnswer("the answer's chunks have no length")
        return int(text, 16)

    # Bytes.

    async def _take_until(self, mark: bytes, size_max: int) -> bytes:
        """What is before the mark, which is used up, too."""
        searched = 0
        while (place := self._held.find(mark, searched)) < 0:
            if len(self._held) >= size_max + len(mark):
                raise BadAnswer("what answers is no store: the head of an answer does not end")
            searched = max(0, len(self._held) - len(mark) + 1)
            self._held += await self._receive()
        found, self._held = self._held[:place], self._held[place + len(mark) :]
        return found

    async def _take_some(self, size_max: int) -> bytes:
        if not self._held:
            self._held = await self._receive()
        return self._take(min(size_max, len(self._held)))

    def _take(self, size: int) -> bytes:
        found, self._held = self._held[:size], self._held[size:]
        return found

    async def _fill(self, target: memoryview) -> None:
        while target:
            count = await self._socket.recv_into(target)
            if not count:
                raise _cut()
            target = target[count:]

    async def _receive(self) -> bytes:
        data = await self._socket.recv(PIECE_BYTES)
        if not data:
            raise _cut()
        return data

    @property
    def is_clean(self) -> bool:
        """Nothing is left over of what was read."""
        return not self._held


def _cut() -> Failure:
    return Failure("the connection was closed before the answer was whole", is_sent=True)


def _status_of(line: bytes) -> tuple[int, bool]:
    """And whether it is one of HTTP/1.0."""
    version, _, rest = line.partition(b" ")
    status = rest[:3]
    if version not in (b"HTTP/1.1", b"HTTP/1.0") or not status.isdigit() or len(status) != 3:
        raise BadAnswer("what answers is no store: it does not speak HTTP/1.1")
    return int(status), version == b"HTTP/1.0"


def _head_of(status: int, lines: list[bytes], *, is_old: bool) -> Head:
    headers: dict[str, str] = {}
    for line in lines:
        name, colon, value = line.partition(b":")
        if not colon or not name or name != name.strip():
            raise BadAnswer("what answers is no store: its headers cannot be read")
        known = name.decode("latin-1").lower()
        if known in headers and known in ("content-length", "transfer-encoding"):
            raise BadAnswer(f"the answer has {known} twice")
        headers[known] = value.strip().decode("latin-1")
    is_last = is_old or "close" in headers.get("connection", "").lower()
    return Head(status, headers, _length_of(status, headers), is_last)


def _length_of(status: int, headers: Mapping[str, str]) -> int | None:
    if status in _BODILESS:
        return 0
    coding, length = headers.get("transfer-encoding"), headers.get("content-length")
    if coding is not None:
        if coding.lower() != "chunked" or length is not None:
            raise BadAnswer("the answer has a length that is not understood")
        return None
    if length is None:
        raise BadAnswer("the answer does not say how long it is")
    if not length.isascii() or not length.isdigit() or len(length) > _LENGTH_DIGITS_MAX:
        raise BadAnswer("the answer's length is no number")
    return int(length)
