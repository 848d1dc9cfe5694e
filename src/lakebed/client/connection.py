"""One connection to a store, for one request and its response at a time.

An error is a `Failure`, which states whether the server may have received the request, a
`BadAnswer`, or a `SourceFailed`. After any of them, the connection cannot be used again.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator

from lakebed.base.layout import Buffer
from lakebed.base.units import KIB
from lakebed.client import sockets
from lakebed.client.errors import BadAnswer, Failure
from lakebed.client.response import Head, ResponseReader
from lakebed.client.sockets import Socket

TOGETHER_BYTES_MAX = 64 * KIB  # up to this size a body is sent together with its head


class SourceFailed(Exception):
    """The iterable that provides a request body raised `error`; the connection is not at fault."""

    def __init__(self, error: Exception) -> None:
        super().__init__(str(error))
        self.error = error


class Pieces:
    """A request body that comes in pieces. It can be iterated only once."""

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
    """A connection to a store.

    Used by one thread at a time, except for `cut` and `stop_sending`.
    """

    def __init__(self, sock: Socket) -> None:
        self._socket = sock
        self._reader = ResponseReader(sock)
        self.is_reusable = False  # true after a complete response, until the next request
        self.idle_since_ns = 0  # set by the pool

    def ask(self, head: bytes, body: Body, *, timeout_s: float) -> Head:
        """Sends a request and returns the head of the response. A body of `Pieces` is sent
        chunked."""
        self.is_reusable = False
        self._socket.settimeout(timeout_s)
        with _translating_errors(timeout_s):
            try:
                self._send(head, body)
            except (BrokenPipeError, ConnectionResetError) as error:
                return self._early_head(error)
            return self._reader.head()

    def read(self, head: Head, *, bytes_max: int, timeout_s: float) -> bytes | bytearray:
        """Returns the body of the response. Raises `BadAnswer` if it is longer than `bytes_max`."""
        with _translating_errors(timeout_s):
            data = self._reader.body(head, bytes_max=bytes_max)
        self._end(head)
        return data

    def pieces(self, head: Head, *, timeout_s: float) -> Iterator[bytes]:
        """Yields the body of the response in pieces. The body may have any length."""
        pieces = self._reader.pieces(head)
        while True:
            with _translating_errors(timeout_s):
                piece = next(pieces, None)
            if piece is None:
                break
            yield piece
        self._end(head)

    def is_alive(self) -> bool:
        """Returns whether the server has neither closed the connection nor sent anything that was
        not read."""
        return sockets.is_quiet(self._socket)

    def cut(self) -> None:
        """Aborts the request in progress. May be called from any thread."""
        sockets.cut(self._socket)

    def stop_sending(self) -> None:
        """Signals to the server that the caller no longer waits. May be called from any thread.

        The response can still be read.
        """
        sockets.stop_sending(self._socket)

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
        """Returns the head of the response if the server refused the request before it was sent
        completely. Raises `error` if there is no response."""
        try:
            return self._reader.head()._replace(is_last=True)
        except (OSError, Failure, BadAnswer):
            raise error from None

    def _end(self, head: Head) -> None:
        self.is_reusable = self._reader.is_clean and not head.is_last


@contextlib.contextmanager
def _translating_errors(timeout_s: float) -> Iterator[None]:
    """Raises socket errors as a `Failure` with `is_sent=True`: the server may have the request."""
    try:
        yield
    except TimeoutError:
        raise Failure(f"no response within {timeout_s:g} s", is_sent=True) from None
    except OSError as error:
        why = error.strerror or str(error) or type(error).__name__
        raise Failure(f"the connection was lost: {why}", is_sent=True) from None
