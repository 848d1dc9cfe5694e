"""A connection during its TLS handshake, counted from the moment it is accepted.

An event loop that is given the TLS context reports connections only after their handshake. Until
then nothing would bound them, and clients that connect and send nothing would take all descriptors.
So they are accepted without TLS, and handed to the loop a second time.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from typing import TYPE_CHECKING, Final, cast

from lakebed.http.connection import REFUSED_MAX, Connection

if TYPE_CHECKING:
    from lakebed.http.server import Server
    from lakebed.http.tls import TlsFiles


class Handshake(asyncio.Protocol):
    """A `Connection` takes its place. The loop has a timer for it."""

    is_idle: Final = True

    _task: asyncio.Task[None]

    def __init__(self, server: Server, tls: TlsFiles) -> None:
        self._server = server
        self._tls = tls
        self._is_begun = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        accepted = cast("asyncio.Transport", transport)
        with contextlib.suppress(OSError):  # no descriptor is left, or the client is gone
            self.socket = _copied(accepted)
            room = self._server.admit(self, is_known=False)
            self._task = self._server.run(self._shake_hands())
            self._task.add_done_callback(self._ended)
            if self._server.is_draining or room < -REFUSED_MAX:
                self.abort()
        accepted.abort()  # the connection goes on by the copy of its descriptor

    def abort(self) -> None:
        self._task.cancel()

    async def _shake_hands(self) -> None:
        self._is_begun = True
        with contextlib.suppress(OSError):  # of TLS, or the client is gone
            await self._server.loop.connect_accepted_socket(
                self._connect,
                self.socket,
                ssl=self._tls.context,
                ssl_handshake_timeout=self._server.limits.header_s,
                ssl_shutdown_timeout=self._server.limits.linger_s,
            )

    def _connect(self) -> Connection:
        return _Secured(self._server, self)

    def _ended(self, _: asyncio.Task[None]) -> None:
        self._server.forget(self)
        if not self._is_begun:  # else the socket is the loop's
            self.socket.close()


class _Secured(Connection):
    """Takes the place of its handshake, and is not counted besides it."""

    __slots__ = ("_handshake",)

    def __init__(self, server: Server, handshake: Handshake) -> None:
        super().__init__(server)
        self._handshake = handshake

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._server.forget(self._handshake)
        super().connection_made(transport)


def _copied(transport: asyncio.Transport) -> socket.socket:
    copy = socket.socket(fileno=os.dup(transport.get_extra_info("socket").fileno()))
    copy.setblocking(False)
    return copy
