"""Connects to a store and waits: the code that differs between the blocking and the asyncio client.

`tools/asynced.py` generates most modules of `lakebed.aio.client` from other modules of this
package. `lakebed.aio.client.sockets` is written by hand and has the same functions for an event
loop.
"""

from __future__ import annotations

import contextlib
import errno
import select
import socket
import ssl
from typing import Final, NoReturn

from lakebed.api.problems import Unauthenticated
from lakebed.base.runner import Runner
from lakebed.client.address import Address
from lakebed.client.errors import Failure
from lakebed.http import local_socket

Socket = socket.socket

_UNHEALING: Final = frozenset({errno.ENOTSOCK, errno.ENOTDIR, errno.ENAMETOOLONG, errno.ELOOP})


def pause(runner: Runner, duration_ns: int) -> None:
    runner.sleep_ns(duration_ns)


def is_quiet(sock: Socket) -> bool:
    """Returns whether nothing was received on the socket, not even the end of the connection."""
    poll = select.poll()
    poll.register(sock, select.POLLIN | select.POLLHUP | select.POLLERR)
    try:
        return not poll.poll(0)
    except OSError:
        return False


def cut(sock: Socket) -> None:
    """Shuts the connection down, which aborts a request in progress. May be called from any
    thread."""
    with contextlib.suppress(OSError):
        sock.shutdown(socket.SHUT_RDWR)


def stop_sending(sock: Socket) -> None:
    """Signals to the server that the caller no longer waits. The response can still be read."""
    with contextlib.suppress(OSError):
        # Not the TLS shutdown, after which nothing could be read.
        socket.socket.shutdown(sock, socket.SHUT_WR)


def connect(address: Address, *, timeout_s: float) -> Socket:
    """Connects to a store.

    If that fails, raises a `Failure` with `is_sent=False`, or `Unauthenticated` if this user may
    not use the local socket.
    """
    try:
        if address.path:
            return local_socket.connect(address.path, timeout_s=timeout_s)
        return _connect_host(address, timeout_s)
    except OSError as error:
        raise_unconnected(address, error, timeout_s)


def _connect_host(address: Address, timeout_s: float) -> Socket:
    sock = socket.create_connection((address.host, address.port), timeout_s)
    try:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if address.tls is None:
            return sock
        return address.tls.wrap_socket(sock, server_hostname=address.host)
    except BaseException:
        sock.close()
        raise


def raise_unconnected(address: Address, error: OSError, timeout_s: float) -> NoReturn:
    why, heals = _why_unconnected(address, error, timeout_s)
    if isinstance(error, PermissionError) and address.path:
        raise Unauthenticated(f"{why}: only the user that opened the store may connect") from None
    raise Failure(why, is_sent=False, heals=heals) from None


def _why_unconnected(address: Address, error: OSError, timeout_s: float) -> tuple[str, bool]:
    if isinstance(error, ssl.SSLCertVerificationError):
        why = f"{address}: the server's certificate is not trusted: {error.verify_message}"
        return f"{why} (to trust a private CA, pass its certificate as ca_file)", False
    if isinstance(error, ssl.SSLError) and not isinstance(error, ssl.SSLEOFError):
        return f"{address}: the TLS handshake failed: {error.reason or error}", False
    if isinstance(error, TimeoutError):
        return f"{address}: no connection within {timeout_s:g} s", True
    if isinstance(error, socket.gaierror):
        return (
            f"{address}: the host name cannot be resolved: {error.strerror}",
            error.errno == socket.EAI_AGAIN,
        )
    if address.path and error.errno in (errno.ENOENT, errno.ECONNREFUSED):
        why = "the store is not open for writing, or the program that has it open serves no socket"
        return f"{address} is not served: {why}", True
    why = (error.strerror or str(error) or type(error).__name__).lower()
    return f"{address}: {why}", error.errno not in _UNHEALING
