"""The body of a response on its way out: as fast as the client takes it, files by sendfile.

`os.sendfile` writes to a copy of the socket's descriptor, past the transport, and so only while
the transport holds nothing back. Where that is not possible (TLS, a file that cannot) it is
read and written.
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
_CANNOT = frozenset({errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP})  # such a file, such a socket


class Outlet(Protocol):
    """The connection, as a body sees it. All raise `ClientGone`."""

    def write(self, data: Buffer) -> None: ...

    async def drained(self) -> None:
        """Until the client has taken enough for more to be written."""

    async def emptied(self) -> None:
        """Until nothing written is held back."""

    def plain_socket(self) -> socket.socket | None:
        """A copy of the socket, if bytes may go to it as they are."""

    async def wait(self, ready: asyncio.Future[None]) -> None:
        """Until it is done, or the client gone."""

    def note_sent(self, count: int) -> None:
        """So many bytes went past the transport."""


class ShortBody(Exception):
    """A response's body is not of the length that was told: our own mistake."""


async def send_pieces(
    outlet: Outlet, pieces: AsyncIterable[Piece], *, length: int | None, is_chunked: bool
) -> int:
    """All of a body; how many bytes it had. `ClientGone`, `ShortBody`, and what `pieces` raises."""
    sent = 0
    async for piece in pieces:
        size = size_of(piece)
        if not size:
            continue
        sent += size
        if length is not None and sent > length:
            raise ShortBody(f"the body has more than {length} bytes")
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
        raise ShortBody(f"the body has {sent} bytes, not {length}")
    if is_chunked:
        outlet.write(CHUNKS_END)
    return sent


def size_of(piece: Piece) -> int:
    if isinstance(piece, FileSlice):
        return piece.length
    return piece.nbytes if isinstance(piece, memoryview) else len(piece)


async def send_file(outlet: Outlet, part: FileSlice) -> None:
    """`ClientGone`; `ShortBody` if the file ends early."""
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
                raise ClientGone("the client closed the connection") from error
            except OSError as error:
                if error.errno not in _CANNOT:
                    raise
                await _read_and_write(outlet, FileSlice(part.descriptor, offset, end - offset))
                return
            if not count:
                raise ShortBody("a file ends before the part of it that is sent")
            offset += count
            outlet.note_sent(count)


async def _writable(outlet: Outlet, copy: socket.socket) -> None:
    loop = asyncio.get_running_loop()
    ready: asyncio.Future[None] = loop.create_future()

    def tell() -> None:
        if not ready.done():
            ready.set_result(None)

    loop.add_writer(copy.fileno(), tell)
    try:
        await outlet.wait(ready)
    finally:
        loop.remove_writer(copy.fileno())  # before the copy is closed


async def _read_and_write(outlet: Outlet, part: FileSlice) -> None:
    offset, end = part.offset, part.offset + part.length
    while offset < end:
        data = os.pread(part.descriptor, min(end - offset, _READ_BYTES), offset)
        if not data:
            raise ShortBody("a file ends before the part of it that is sent")
        outlet.write(data)
        offset += len(data)
        await outlet.drained()


async def close_pieces(body: object) -> None:
    """Let a body that is not read to its end give back what it holds."""
    close = getattr(body, "aclose", None)
    if close is not None:
        await close()
