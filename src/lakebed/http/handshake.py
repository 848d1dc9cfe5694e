"""Connections in their TLS handshake, so that the connection limit already counts them.

An event loop with a TLS context reports a connection only after its handshake. Until then the
connection limit would not apply, and clients that connect and send nothing could use up all
file descriptors. So connections are accepted without TLS, counted, and then passed to the loop
again for the handshake.
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
    """A client connection in its TLS handshake. A `Connection` replaces it after the handshake.

    The event loop ends a handshake that takes longer than `Limits.header_s`.
    """

    is_idle: Final = True

    _task: asyncio.Task[None]

    def __init__(self, server: Server, tls: TlsFiles) -> None:
        self._server = server
        self._tls = tls
        self._is_begun = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        accepted = cast("asyncio.Transport", transport)
        with contextlib.suppress(OSError):  # no descriptor left, or the client is gone
            self.socket = _copied(accepted)
            room = self._server.admit(self, is_known=False)
            self._task = self._server.run(self._shake_hands())
            self._task.add_done_callback(self._ended)
            if self._server.is_draining or room < -REFUSED_MAX:
                self.abort()
        accepted.abort()  # the connection continues on the copied descriptor

    def abort(self) -> None:
        self._task.cancel()

    async def _shake_hands(self) -> None:
        self._is_begun = True
        with contextlib.suppress(OSError):  # a TLS error, or the client is gone
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
        if not self._is_begun:  # otherwise the loop owns the socket
            self.socket.close()


class _Secured(Connection):
    """A TLS connection. When it starts, its handshake is no longer counted as a connection."""

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
