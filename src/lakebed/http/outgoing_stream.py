"""The outgoing side of a connection: writes to the transport and detects stuck clients.

At most one task writes at a time, so at most one task waits. After the connection is closed,
`write` drops its data, and methods that wait raise `ClientGone`.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket

from lakebed.base.clock import NS_PER_S
from lakebed.base.layout import Buffer
from lakebed.http.body_sender import size_of
from lakebed.http.limits import Limits
from lakebed.http.minimum_rate import MinimumRate
from lakebed.http.request import ClientGone


class OutgoingStream:
    """Writes the responses of one connection.

    The connection calls `pause`, `resume` and `lose` when the transport reports these events.
    """

    __slots__ = (
        "_is_secure",
        "_moved_bytes",
        "_moved_ns",
        "_pace",
        "_transport",
        "_waiter",
        "_written_bytes",
        "is_open",
        "is_writable",
    )

    def __init__(self, transport: asyncio.Transport, *, is_secure: bool, now_ns: int) -> None:
        self._transport: asyncio.Transport | None = transport
        self._is_secure = is_secure
        self.is_open = True
        self.is_writable = True
        self._waiter: asyncio.Future[None] | None = None
        self._written_bytes = 0  # through the transport or sendfile
        self._moved_bytes = 0  # bytes that had been sent to the client at the last check
        self._moved_ns = now_ns
        self._pace: MinimumRate | None = None  # while there are unsent bytes

    # Called by the task that writes a response.

    def write(self, data: Buffer) -> None:
        if self._transport is not None:
            self._written_bytes += size_of(data)
            self._transport.write(data)

    def write_both(self, head: bytes, body: Buffer) -> None:
        """Writes head and body without copying them into one buffer."""
        if self._transport is not None:
            self._written_bytes += len(head) + size_of(body)
            self._transport.writelines((head, body))

    async def drained(self) -> None:
        if self._transport is None:
            raise ClientGone("the connection to the client is closed")
        if not self.is_writable:
            await self.wait(asyncio.get_running_loop().create_future())

    async def emptied(self) -> None:
        transport = self._transport
        if transport is not None and transport.get_write_buffer_size():
            low, high = transport.get_write_buffer_limits()
            transport.set_write_buffer_limits(high=0)
            try:
                while self._transport is not None and transport.get_write_buffer_size():
                    await self.wait(asyncio.get_running_loop().create_future())
            finally:
                transport.set_write_buffer_limits(high=high, low=low)
        if self._transport is None:
            raise ClientGone("the connection to the client is closed")

    async def wait(self, ready: asyncio.Future[None]) -> None:
        assert self._waiter is None, "two tasks write to one connection"
        if self._transport is None:
            raise ClientGone("the connection to the client is closed")
        self._waiter = ready
        try:
            await ready
        finally:
            self._waiter = None
        if self._transport is None:
            raise ClientGone("the connection to the client is closed")

    def plain_socket(self) -> socket.socket | None:
        if self._transport is None:
            raise ClientGone("the connection to the client is closed")
        if self._is_secure:
            return None
        transport_socket = self._transport.get_extra_info("socket")
        return None if transport_socket is None else transport_socket.dup()

    def note_sent(self, count: int) -> None:
        self._written_bytes += count

    # Called by the connection.

    def pause(self) -> None:
        self.is_writable = False

    def resume(self) -> None:
        self.is_writable = True
        self._wake()

    def lose(self) -> None:
        """Records that the connection is closed, and wakes the waiting task."""
        self._transport = None
        self.is_open = False
        self._wake()

    def is_stuck(self, now_ns: int, limits: Limits) -> bool:
        """Returns whether the client has received nothing, or too little, for too long.

        The connection calls it once a second.
        """
        if self._transport is None:
            return False
        held_bytes = self._transport.get_write_buffer_size()
        moved_bytes, before = self._written_bytes - held_bytes, self._moved_bytes
        self._moved_bytes = moved_bytes
        if not held_bytes and self._waiter is None:
            self._pace, self._moved_ns = None, now_ns
            return False
        if self._pace is None:
            self._pace = MinimumRate(rate_bytes_min=limits.rate_bytes_min, now_ns=now_ns)
        self._pace.note(moved_bytes - before, now_ns, was_waited_for=True)
        if moved_bytes != before:
            self._moved_ns = now_ns
        is_still = now_ns - self._moved_ns > limits.write_s * NS_PER_S
        return is_still or self._pace.is_too_slow(now_ns, int(limits.rate_grace_s * NS_PER_S))

    @property
    def is_empty(self) -> bool:
        return self._transport is None or not self._transport.get_write_buffer_size()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            with contextlib.suppress(asyncio.InvalidStateError):
                self._waiter.set_result(None)
