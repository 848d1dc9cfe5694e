"""Connects to a store and waits, in an event loop: the asyncio form of `lakebed.client.sockets`.

A `Socket` has the methods of a blocking socket that the client uses, as coroutines on an asyncio
transport, so the loop handles TLS. If a call is cancelled, its connection is in an undefined state,
and the pool closes it.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import socket
from typing import Final, cast

from lakebed.base.clock import NS_PER_S
from lakebed.base.layout import Buffer
from lakebed.base.runner import Runner
from lakebed.base.units import KIB
from lakebed.client import sockets as blocking
from lakebed.client.address import Address
from lakebed.http import local_socket

HELD_BYTES_MAX: Final = 512 * KIB  # received but unread; above this, receiving pauses


class Socket(asyncio.Protocol):
    """An asyncio connection with the methods of a blocking socket. One task at a time may use
    it."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport
        self._received = bytearray()
        self._is_paused = False  # whether receiving is paused
        self._is_full = False  # whether the send buffer is full
        self._is_ended = False
        self._error: Exception | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._timeout_s: float | None = None

    def settimeout(self, timeout_s: float) -> None:
        """Sets the time-out of each following wait."""
        self._timeout_s = timeout_s

    async def recv(self, size: int) -> bytes:
        """Returns between one and `size` bytes, or b"" at the end of the connection."""
        await self._wait_for_bytes()
        data = bytes(memoryview(self._received)[:size])
        self._drop(len(data))
        return data

    async def recv_into(self, target: memoryview) -> int:
        await self._wait_for_bytes()
        count = min(len(target), len(self._received))
        with memoryview(self._received) as received:
            target[:count] = received[:count]
        self._drop(count)
        return count

    async def sendall(self, data: Buffer) -> None:
        """Sends the data. When this returns, the operating system has all of it, and it may be
        changed."""
        self._check_unbroken()
        self._transport.write(data)
        while self._is_full:
            await self._wait()
            self._check_unbroken()

    def close(self) -> None:
        self._transport.abort()

    @property
    def transport(self) -> asyncio.Transport:
        return self._transport

    @property
    def has_input(self) -> bool:
        return bool(self._received) or self._is_ended

    # Called by the loop.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        # A TLS transport pauses at `high` bytes, others above it.
        is_tls = transport.get_extra_info("sslcontext") is not None
        self._transport.set_write_buffer_limits(high=int(is_tls), low=0)

    def data_received(self, data: bytes) -> None:
        self._received += data
        if len(self._received) > HELD_BYTES_MAX and not self._is_paused:
            self._is_paused = True
            self._transport.pause_reading()
        self._wake()

    def eof_received(self) -> None:
        self._is_ended = True
        self._wake()

    def connection_lost(self, error: Exception | None) -> None:
        self._is_ended = True
        self._is_full = False
        self._error = error
        self._wake()

    def pause_writing(self) -> None:
        self._is_full = True

    def resume_writing(self) -> None:
        self._is_full = False
        self._wake()

    # Waiting.

    async def _wait_for_bytes(self) -> None:
        while not self._received and not self._is_ended:
            await self._wait()
        if not self._received and self._error is not None:
            raise self._error

    async def _wait(self) -> None:
        loop = asyncio.get_running_loop()
        waiter = self._waiter = loop.create_future()
        timer = None
        if self._timeout_s is not None:
            timer = loop.call_later(self._timeout_s, _expire, waiter)
        try:
            await waiter
        finally:
            self._waiter = None
            if timer is not None:
                timer.cancel()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def _drop(self, count: int) -> None:
        del self._received[:count]
        if self._is_paused and len(self._received) <= HELD_BYTES_MAX:
            self._is_paused = False
            self._transport.resume_reading()

    def _check_unbroken(self) -> None:
        if self._is_ended:
            raise BrokenPipeError("the server closed the connection")


def _expire(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_exception(TimeoutError())


async def pause(runner: Runner, duration_ns: int) -> None:  # noqa: ARG001 - the loop has its own clock
    await asyncio.sleep(duration_ns / NS_PER_S)


def is_quiet(sock: Socket) -> bool:
    """Returns whether nothing was received, not even the end of the connection."""
    return not sock.has_input and blocking.is_quiet(sock.transport.get_extra_info("socket"))


def cut(sock: Socket) -> None:
    """Aborts a request that is in progress."""
    sock.transport.abort()


def stop_sending(sock: Socket) -> None:
    """Signals to the server that the caller no longer waits. The response can still be read."""
    with contextlib.suppress(OSError):
        if sock.transport.can_write_eof():
            sock.transport.write_eof()
        else:  # TLS: after a TLS shutdown nothing could be read
            sock.transport.get_extra_info("socket").shutdown(socket.SHUT_WR)


async def connect(address: Address, *, timeout_s: float) -> Socket:
    """Connects to a store.

    If that fails, raises a `Failure` with `is_sent=False`, or `Unauthenticated` if this user may
    not use the local socket.
    """
    try:
        async with asyncio.timeout(timeout_s):
            return await _connect(address)
    except OSError as error:
        blocking.raise_unconnected(address, error, timeout_s)


async def _connect(address: Address) -> Socket:
    loop = asyncio.get_running_loop()
    if address.path:
        # Without a wait: if the backlog is full, this fails and the caller retries.
        sock = local_socket.connect(address.path, timeout_s=0)
        _, connected = await loop.create_unix_connection(Socket, sock=sock)
        return connected
    sock = await _connect_host(address, loop)
    _, connected = await loop.create_connection(
        Socket,
        sock=sock,
        ssl=address.tls,
        server_hostname=None if address.tls is None else address.host,
    )
    return connected


async def _connect_host(address: Address, loop: asyncio.AbstractEventLoop) -> socket.socket:
    """Connects to the first of the host's addresses that accepts. If none does, raises the last
    error."""
    error = OSError(errno.EHOSTUNREACH, os.strerror(errno.EHOSTUNREACH))
    for family, kind, protocol, _, socket_address in await loop.getaddrinfo(
        address.host, address.port, type=socket.SOCK_STREAM
    ):
        sock = socket.socket(family, kind, protocol)
        try:
            sock.setblocking(False)
            await loop.sock_connect(sock, socket_address)
        except BaseException as failure:
            sock.close()
            if not isinstance(failure, OSError) or failure.errno is None:
                raise
            error = OSError(failure.errno, os.strerror(failure.errno))
        else:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return sock
    raise error
