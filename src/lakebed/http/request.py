"""A request as a handler gets it, with a parsed head and a body that may still be arriving."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import NamedTuple, Protocol

from lakebed.base.errors import InputError, LakebedError


class ClientGone(LakebedError):
    """The client closed the connection, or was cut off for being too slow."""


class BadBody(InputError):
    """The framing of the body is malformed. The connection is closed after the response."""


class RequestBody(Protocol):
    """Read once, in the loop's thread.

    If some of it is not read, the connection closes after the response.
    """

    length: int | None  # as announced, or None if chunked
    whole: bytes | None  # the body, if it arrived with the head, as every small one does

    async def read(self) -> bytes | bytearray:
        """Returns the next piece, or b"" at the end. Raises `ClientGone` and `BadBody`."""
        ...

    def __aiter__(self) -> AsyncIterator[bytes | bytearray]: ...


class RequestLabel(NamedTuple):
    """What a request does, for logs and metrics."""

    operation: str
    bucket: str = ""
    access_key: str = ""


class Request:
    """`raw_path` and `raw_query` are the bytes that were sent; nothing is decoded."""

    __slots__ = (
        "_at_end",
        "body",
        "fields",
        "headers",
        "id",
        "is_gone",
        "is_hurried",
        "is_secure",
        "label",
        "method",
        "on_hurry",
        "peer",
        "raw_path",
        "raw_query",
        "received_ns",
        "version",
    )

    def __init__(
        self,
        *,
        method: str,
        raw_path: bytes,
        raw_query: bytes,
        version: str,
        fields: Sequence[tuple[bytes, bytes]],
        headers: Mapping[str, str],
        body: RequestBody,
        request_id: str,
        peer: str,
        is_secure: bool,
        received_ns: int,
    ) -> None:
        self.method = method
        self.raw_path = raw_path
        self.raw_query = raw_query  # without the "?"
        self.version = version  # "1.0" or "1.1"
        self.fields = fields  # the headers as received
        self.headers = headers  # by lower-case name; values of a repeated header are joined by ","
        self.body = body
        self.id = request_id  # 16 hexadecimal digits; handlers return it to the client
        self.peer = peer  # the client's address, or "" on a local socket
        self.is_secure = is_secure
        self.received_ns = received_ns  # monotonic, at the end of the head
        self.label: RequestLabel | None = None  # set by the handler once it is known
        self.is_gone = False  # the client closed the connection or its sending side
        self.is_hurried = False  # the client is gone or the server shuts down: wait for no new data
        self._at_end: list[Callable[[], None]] = []
        self.on_hurry: Callable[[], None] | None = None  # called in the loop's thread

    def at_end(self, give_back: Callable[[], None]) -> None:
        """Registers a call for when the client has the response, or can no longer get one."""
        self._at_end.append(give_back)

    def end(self) -> None:
        """Called by the connection. Idempotent."""
        while self._at_end:
            self._at_end.pop()()

    def hurry(self, *, is_gone: bool) -> None:
        """Called by the connection when the client is gone or the server shuts down."""
        self.is_gone = self.is_gone or is_gone
        self.is_hurried = True
        if self.on_hurry is not None:
            self.on_hurry()
