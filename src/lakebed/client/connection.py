"""One connection to a store: a request and its answer, one at a time.

Whatever goes wrong is a `Failure`, which says whether the server may have got the request, or a
`BadAnswer`. After either the connection is of no use any more.
"""

from __future__ import annotations

import contextlib
import errno
import select
import socket
import ssl
from collections.abc import Iterable, Iterator
from typing import Final, NoReturn

from lakebed.api.problems import Unauthenticated
from lakebed.base.layout import Buffer
from lakebed.base.units import KIB
from lakebed.client.address import Address
from lakebed.client.errors import BadAnswer, Failure
from lakebed.client.response import Head, ResponseReader
from lakebed.http import local_socket

TOGETHER_BYTES_MAX = 64 * KIB  # a body that is copied behind its head: one packet, one wakening

_UNHEALING: Final = frozenset({errno.ENOTSOCK, errno.ENOTDIR, errno.ENAMETOOLONG, errno.ELOOP})


class SourceFailed(Exception):
    """Whoever gives the pieces of a body failed: no fault of the connection."""

    def __init__(self, error: Exception) -> None:
        super().__init__(str(error))
        self.error = error


class Pieces:
    """A body that comes in pieces, once."""

    def __init__(self, source: Iterable[Buffer]) -> None:
        self._source = source
        self.is_begun = False

    def __iter__(self) -> Iterator[memoryview]:
        self.is_begun = True
        pieces = iter(self._source)
        while True:
            try:
                piece = next(pieces, None)
                if piece is None:
                    return
                view = memoryview(piece).cast("B")
            except Exception as error:
                raise SourceFailed(error) from error
            if view:
                yield view


Body = bytes | bytearray | memoryview | Pieces


class Connection:
    """Of one thread at a time, but for `cut` and `stop_sending`."""

    def __init__(self, sock: socket.socket) -> None:
        self._socket = sock
        self._reader = ResponseReader(sock)
        self.is_reusable = False  # between an answer that was read and the next request
        self.idle_since_ns = 0  # its pool's

    def ask(self, head: bytes, body: Body, *, timeout_s: float) -> Head:
        """Send a request, and the head of its answer. A body of pieces is sent in chunks."""
        self.is_reusable = False
        self._socket.settimeout(timeout_s)
        with _told(timeout_s):
            try:
                self._send(head, body)
            except (BrokenPipeError, ConnectionResetError) as error:
                return self._early_head(error)
            return self._reader.head()

    def read(self, head: Head, *, bytes_max: int, timeout_s: float) -> bytes | bytearray:
        """The body of the answer."""
        with _told(timeout_s):
            found = self._reader.body(head, bytes_max=bytes_max)
        self._end(head)
        return found

    def pieces(self, head: Head, *, timeout_s: float) -> Iterator[bytes]:
        """The same of any length."""
        pieces = self._reader.pieces(head)
        while True:
            with _told(timeout_s):
                piece = next(pieces, None)
            if piece is None:
                break
            yield piece
        self._end(head)

    def is_alive(self) -> bool:
        """Whether the server has kept it: nothing came, not even the end."""
        poll = select.poll()
        poll.register(self._socket, select.POLLIN | select.POLLHUP | select.POLLERR)
        try:
            return not poll.poll(0)
        except OSError:
            return False

    def cut(self) -> None:
        """End whatever is under way; from any thread."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)

    def stop_sending(self) -> None:
        """Tell the server that nobody waits any more; from any thread. Its answer can be read."""
        with contextlib.suppress(OSError):
            # Not TLS's own, after which nothing could be read.
            socket.socket.shutdown(self._socket, socket.SHUT_WR)

    def close(self) -> None:
        self.is_reusable = False
        with contextlib.suppress(OSError):
            self._socket.close()

    def _send(self, head: bytes, body: Body) -> None:
        if not isinstance(body, Pieces):
            if len(body) <= TOGETHER_BYTES_MAX:
                self._socket.sendall(head + body)
            else:
                self._socket.sendall(head)
                self._socket.sendall(body)
            return
        self._socket.sendall(head)
        for piece in body:
            self._socket.sendall(b"%x\r\n" % len(piece))
            self._socket.sendall(piece)
            self._socket.sendall(b"\r\n")
        self._socket.sendall(b"0\r\n\r\n")

    def _early_head(self, error: OSError) -> Head:
        """A server that does not want the rest may have said why before it hung up."""
        try:
            return self._reader.head()._replace(is_last=True)
        except (OSError, Failure, BadAnswer):
            raise error from None

    def _end(self, head: Head) -> None:
        self.is_reusable = self._reader.is_clean and not head.is_last


@contextlib.contextmanager
def _told(timeout_s: float) -> Iterator[None]:
    """What the socket says, as a `Failure` of a request that was sent."""
    try:
        yield
    except TimeoutError:
        raise Failure(f"no answer within {timeout_s:g} s", is_sent=True) from None
    except OSError as error:
        why = error.strerror or str(error) or type(error).__name__
        raise Failure(f"the connection was lost: {why}", is_sent=True) from None


def connect(address: Address, *, timeout_s: float) -> Connection:
    """A new one. A `Failure` that was not sent, `Unauthenticated` for another user's socket."""
    try:
        if address.path:
            return Connection(local_socket.connect(address.path, timeout_s=timeout_s))
        return Connection(_connect_host(address, timeout_s))
    except OSError as error:
        _tell_unconnected(address, error, timeout_s)


def _connect_host(address: Address, timeout_s: float) -> socket.socket:
    sock = socket.create_connection((address.host, address.port), timeout_s)
    try:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if address.tls is None:
            return sock
        return address.tls.wrap_socket(sock, server_hostname=address.host)
    except BaseException:
        sock.close()
        raise


def _tell_unconnected(address: Address, error: OSError, timeout_s: float) -> NoReturn:
    why, heals = _why_unconnected(address, error, timeout_s)
    if isinstance(error, PermissionError) and address.path:
        raise Unauthenticated(f"{why}: it is for the user who opened the store") from None
    raise Failure(why, is_sent=False, heals=heals) from None


def _why_unconnected(address: Address, error: OSError, timeout_s: float) -> tuple[str, bool]:
    if isinstance(error, ssl.SSLCertVerificationError):
        why = f"{address}: its certificate is not trusted: {error.verify_message}"
        return f"{why} (a CA of one's own is given as ca_file)", False
    if isinstance(error, ssl.SSLError) and not isinstance(error, ssl.SSLEOFError):
        return f"{address}: no TLS connection: {error.reason or error}", False
    if isinstance(error, TimeoutError):
        return f"{address}: no connection within {timeout_s:g} s", True
    if isinstance(error, socket.gaierror):
        return f"{address}: no such host: {error.strerror}", error.errno == socket.EAI_AGAIN
    if address.path and error.errno in (errno.ENOENT, errno.ECONNREFUSED):
        return f"nobody serves {address}: no program has the store open for writing", True
    why = (error.strerror or str(error) or type(error).__name__).lower()
    return f"{address}: {why}", error.errno not in _UNHEALING
