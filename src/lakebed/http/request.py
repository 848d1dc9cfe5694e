"""A request as a handler gets it, with a parsed head and a body that may still be arriving."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import NamedTuple, Protocol

from lakebed.base.errors import InputError, LakebedError


class ClientGone(LakebedError):
    """The client closed the connection, or the server cut it off (for example because it was too
    slow), or the response was sent before the whole request body was received.
    """


class BadBody(InputError):
    """The chunked encoding of a request body is malformed. The server closes the connection."""


class RequestBody(Protocol):
    """The body of a request, which can be read once, in the event loop's thread.

    If `whole` is None and the handler does not read all of the body, the connection closes after
    the response.
    """

    length: int | None  # as announced, or None if chunked
    whole: bytes | None  # the body, if it is small and was received before the handler was called

    async def read(self) -> bytes | bytearray:
        """Returns the next piece, or b"" at the end. Raises `ClientGone` or `BadBody`."""
        ...

    def __aiter__(self) -> AsyncIterator[bytes | bytearray]: ...


class RequestLabel(NamedTuple):
    """The operation, bucket and access key of a request, for logs and metrics."""

    operation: str
    bucket: str = ""
    access_key: str = ""


class Request:
    """A request that a handler receives.

    `raw_path` and `raw_query` are the bytes that the client sent, without any decoding.
    """

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
        self.received_ns = received_ns  # monotonic, when the handler was called
        self.label: RequestLabel | None = None  # set by the handler
        self.is_gone = False  # the client closed the connection or its sending side
        self.is_hurried = False  # the client is gone or the server shuts down: wait for no new data
        self._at_end: list[Callable[[], None]] = []
        self.on_hurry: Callable[[], None] | None = None  # called in the loop's thread

    def at_end(self, give_back: Callable[[], None]) -> None:
        """Registers a callback that runs after the handler has ended and the response was sent.

        If the client is gone, the callback runs as soon as the handler has ended.
        """
        self._at_end.append(give_back)

    def end(self) -> None:
        """Runs the callbacks registered with `at_end`, each only once. The server calls it."""
        while self._at_end:
            self._at_end.pop()()

    def hurry(self, *, is_gone: bool) -> None:
        """Asks the handler to finish soon: sets `is_hurried` and calls `on_hurry`.

        The connection calls it when the client is gone (`is_gone` is true) or the server shuts
        down.
        """
        self.is_gone = self.is_gone or is_gone
        self.is_hurried = True
        if self.on_hurry is not None:
            self.on_hurry()
