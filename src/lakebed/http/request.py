"""A request, as a handler gets it: its head parsed but not interpreted, its body on the way."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import NamedTuple, Protocol

from lakebed.base.errors import InputError, LakebedError


class ClientGone(LakebedError):
    """The client closed the connection, or was cut off for being too slow."""


class BadBody(InputError):
    """The body's framing is broken; the connection is closed after the answer."""


class RequestBody(Protocol):
    """Read once, in the loop's thread. What is not read closes the connection after the answer."""

    length: int | None  # as announced; None if it is chunked
    whole: bytes | None  # all of it, if it came along with the head; small ones always do

    async def read(self) -> bytes | bytearray:
        """The next piece, of any size; empty at the end. `ClientGone`, `BadBody`."""
        ...

    def __aiter__(self) -> AsyncIterator[bytes | bytearray]:
        """All pieces."""
        ...


class RequestLabel(NamedTuple):
    """What a request was found to ask for, for whoever counts and logs."""

    operation: str
    bucket: str = ""
    access_key: str = ""


class Request:
    """`raw_path` and `raw_query` are what was sent, byte for byte: nothing is decoded here."""

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
        self.fields = fields  # the header as it came
        self.headers = headers  # names in lower case; of one that came repeatedly, joined by ","
        self.body = body
        self.id = request_id  # ours: 16 digits, told to the client by whoever answers
        self.peer = peer  # the client's address, or "" on a local socket
        self.is_secure = is_secure
        self.received_ns = received_ns  # of the monotonic clock, at the end of the head
        self.label: RequestLabel | None = None  # set by the handler, as soon as it knows
        self.is_gone = False  # the client says that it sends no more, or is not there any more
        self.is_hurried = False  # it is gone, or the server ends: wait for nothing that may come
        self._at_end: list[Callable[[], None]] = []
        self.on_hurry: Callable[[], None] | None = None  # for one who waits, in the loop's thread

    def at_end(self, give_back: Callable[[], None]) -> None:
        """Have it called once the client has the response, or nobody will ever get one."""
        self._at_end.append(give_back)

    def end(self) -> None:
        """By the connection. Idempotent."""
        while self._at_end:
            self._at_end.pop()()

    def hurry(self, *, is_gone: bool) -> None:
        """By the connection."""
        self.is_gone = self.is_gone or is_gone
        self.is_hurried = True
        if self.on_hurry is not None:
            self.on_hurry()
