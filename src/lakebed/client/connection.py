"""One connection to a store: a request and its answer, one at a time.

Whatever goes wrong is a `Failure`, which says whether the server may have got the request, or a
`BadAnswer`. After either the connection is of no use any more.
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

TOGETHER_BYTES_MAX = 64 * KIB  # a body that is copied behind its head: one packet, one wakening


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

    def __init__(self, sock: Socket) -> None:
        self._socket = sock
        self._reader = ResponseReader(sock)
        self.is_reusable = False  # between an answer that was read and the next request
        self.idle_since_ns = 0  # its pool's

    def ask(self, head: bytes, body: Body, *, timeout_s: float) -> Head:
        """Send a request, and the head of its answer. A body of pieces is sent in chunks."""
        self.is_reusable = False
        self._socket.settimeout(timeout_s)
        with _translating_errors(timeout_s):
            try:
                self._send(head, body)
            except (BrokenPipeError, ConnectionResetError) as error:
                return self._early_head(error)
            return self._reader.head()

    def read(self, head: Head, *, bytes_max: int, timeout_s: float) -> bytes | bytearray:
        """The body of the answer."""
        with _translating_errors(timeout_s):
            found = self._reader.body(head, bytes_max=bytes_max)
        self._end(head)
        return found

    def pieces(self, head: Head, *, timeout_s: float) -> Iterator[bytes]:
        """The same of any length."""
        pieces = self._reader.pieces(head)
        while True:
            with _translating_errors(timeout_s):
                piece = next(pieces, None)
            if piece is None:
                break
            yield piece
        self._end(head)

    def is_alive(self) -> bool:
        """Whether the server has kept it: nothing came, not even the end."""
        return sockets.is_quiet(self._socket)

    def cut(self) -> None:
        """End whatever is under way; from any thread."""
        sockets.cut(self._socket)

    def stop_sending(self) -> None:
        """Tell the server that nobody waits any more; from any thread. Its answer can be read."""
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
        """A server that does not want the rest may have said why before it hung up."""
        try:
            return self._reader.head()._replace(is_last=True)
        except (OSError, Failure, BadAnswer):
            raise error from None

    def _end(self, head: Head) -> None:
        self.is_reusable = self._reader.is_clean and not head.is_last


@contextlib.contextmanager
def _translating_errors(timeout_s: float) -> Iterator[None]:
    """What the socket says, as a `Failure` of a request that was sent."""
    try:
        yield
    except TimeoutError:
        raise Failure(f"no answer within {timeout_s:g} s", is_sent=True) from None
    except OSError as error:
        why = error.strerror or str(error) or type(error).__name__
        raise Failure(f"the connection was lost: {why}", is_sent=True) from None
