"""Sends response bodies no faster than the client receives them, and files with `sendfile`.

`os.sendfile` writes to a copy of the socket's descriptor and bypasses asyncio's transport, so it is
used only while the transport's buffer is empty. Where sendfile is not possible (TLS, some files),
the file is read and written to the transport.
"""

from __future__ import annotations

import asyncio
import errno
import os
import socket
from collections.abc import AsyncIterable
from typing import Protocol

from lakebed.base.layout import Buffer
from lakebed.base.units import KIB
from lakebed.http.request import ClientGone
from lakebed.http.response import FileSlice, Piece
from lakebed.http.response_head import CHUNKS_END

_READ_BYTES = 256 * KIB
_SEND_BYTES_MAX = 1 << 30
_CANNOT = frozenset({errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP})  # unsupported file or socket


class Outlet(Protocol):
    """The methods of a connection's outgoing stream that send a response body.

    Methods that wait, and `plain_socket`, raise `ClientGone` if the client is gone.
    """

    def write(self, data: Buffer) -> None: ...

    async def drained(self) -> None:
        """Waits until the transport accepts more data."""

    async def emptied(self) -> None:
        """Waits until the transport's buffer is empty."""

    def plain_socket(self) -> socket.socket | None:
        """Returns a duplicate of the socket, which the caller must close.

        Returns None if the connection uses TLS or has no socket.
        """

    async def wait(self, ready: asyncio.Future[None]) -> None:
        """Waits until `ready` is done. Raises `ClientGone` if the client is gone before that."""

    def note_sent(self, count: int) -> None:
        """Counts bytes that were sent with `sendfile`, bypassing the transport."""


class ShortBody(Exception):
    """A response body is shorter or longer than announced, or a file is shorter than the range to
    send: a handler's bug.
    """


async def send_pieces(
    outlet: Outlet, pieces: AsyncIterable[Piece], *, length: int | None, is_chunked: bool
) -> int:
    """Sends a response body and returns its size in bytes.

    Raises `ShortBody` if the body does not have `length` bytes (None means any length), or if a
    file is shorter than the range to send. Also raises `ClientGone`, and any error that iterating
    over `pieces` or reading a file raises.
    """
    sent = 0
    async for piece in pieces:
        size = size_of(piece)
        if not size:
            continue
        sent += size
        if length is not None and sent > length:
            raise ShortBody(f"the response body is longer than the announced {length} bytes")
        if is_chunked:
            outlet.write(b"%x\r\n" % size)
        if isinstance(piece, FileSlice):
            await send_file(outlet, piece)
        else:
            outlet.write(piece)
        if is_chunked:
            outlet.write(b"\r\n")
        await outlet.drained()
    if length is not None and sent != length:
        raise ShortBody(f"the response body has {sent} bytes, but {length} bytes were announced")
    if is_chunked:
        outlet.write(CHUNKS_END)
    return sent


def size_of(piece: Piece) -> int:
    if isinstance(piece, FileSlice):
        return piece.length
    return piece.nbytes if isinstance(piece, memoryview) else len(piece)


async def send_file(outlet: Outlet, part: FileSlice) -> None:
    """Sends a range of a file, with `sendfile` if possible.

    Raises `ClientGone`, or `ShortBody` if the file is shorter than the range.
    """
    copy = outlet.plain_socket()
    if copy is None:
        await _read_and_write(outlet, part)
        return
    with copy:
        await outlet.emptied()
        offset, end = part.offset, part.offset + part.length
        while offset < end:
            try:
                count = os.sendfile(
                    copy.fileno(), part.descriptor, offset, min(end - offset, _SEND_BYTES_MAX)
                )
            except BlockingIOError:
                await _writable(outlet, copy)
                continue
            except (ConnectionError, TimeoutError) as error:
                raise ClientGone("the connection to the client is broken") from error
            except OSError as error:
                if error.errno not in _CANNOT:
                    raise
                await _read_and_write(outlet, FileSlice(part.descriptor, offset, end - offset))
                return
            if not count:
                raise ShortBody("the file is shorter than the range to send")
            offset += count
            outlet.note_sent(count)


async def _writable(outlet: Outlet, copy: socket.socket) -> None:
    loop = asyncio.get_running_loop()
    ready: asyncio.Future[None] = loop.create_future()

    def set_ready() -> None:
        if not ready.done():
            ready.set_result(None)

    loop.add_writer(copy.fileno(), set_ready)
    try:
        await outlet.wait(ready)
    finally:
        loop.remove_writer(copy.fileno())  # before the copy is closed


async def _read_and_write(outlet: Outlet, part: FileSlice) -> None:
    offset, end = part.offset, part.offset + part.length
    while offset < end:
        data = os.pread(part.descriptor, min(end - offset, _READ_BYTES), offset)
        if not data:
            raise ShortBody("the file is shorter than the range to send")
        outlet.write(data)
        offset += len(data)
        await outlet.drained()


async def close_pieces(body: object) -> None:
    """Closes a response body that has `aclose`, such as an async generator, to free resources."""
    close = getattr(body, "aclose", None)
    if close is not None:
        await close()
