"""Calls of the table of `lakebed.api`, made over HTTP: documents are MessagePack both ways.

    caller.call(topics.DESCRIBE_TOPIC, {"topic": "orders"})

What the server tells as a problem is raised as the same error; where nobody answers, `Unreachable`
says why, and whether the call may have been carried out. What is repeated, `retry_schedule` says.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from random import Random
from typing import Final, NamedTuple, TypeVar, cast
from urllib.parse import quote

import msgspec
from msgspec import Struct

from lakebed.api import media
from lakebed.api.operation import Nothing, Operation, Raw
from lakebed.api.problems import Unreachable, error_of
from lakebed.base.errors import (
    BadName,
    Busy,
    Closed,
    InputError,
    LakebedError,
    RetryError,
    TooLarge,
)
from lakebed.base.runner import Runner
from lakebed.base.units import MIB, shown
from lakebed.client.address import Address
from lakebed.client.connection import Body, Connection, Pieces, SourceFailed
from lakebed.client.connection_pool import ConnectionPool, Interruption
from lakebed.client.errors import BadAnswer, Failure
from lakebed.client.response import Head
from lakebed.client.retry_schedule import REFUSALS, RETRY_S, RetrySchedule
from lakebed.client.sockets import connect, pause

CONNECT_S: Final = 5.0
ANSWER_S: Final = 30.0  # without a byte, beyond what a call itself waits
ANSWER_BYTES_MAX: Final = 256 * MIB
PROBLEM_BYTES_MAX: Final = 1 * MIB

_ACCEPTED: Final = f"{media.MSGPACK}, {Raw.BYTES.value}"

Result = TypeVar("Result")
Names = Mapping[str, object]
NONE: Names = {}


class Answer(NamedTuple):
    """One that is no problem."""

    headers: Mapping[str, str]  # names in lower case
    body: bytes | bytearray


class Streamed(NamedTuple):
    """One that is longer than what is held in memory."""

    headers: Mapping[str, str]
    pieces: Iterator[bytes]


class _Refusal(Exception):
    """A problem that was told."""

    def __init__(self, error: LakebedError, *, status: int, retry_after_s: int) -> None:
        super().__init__(str(error))
        self.error = error
        self.status = status
        self.retry_after_s = retry_after_s


class Request(NamedTuple):
    """What goes over the wire."""

    operation: Operation[object]
    target: str
    body: Body
    media: str  # of the body; none if there is none
    timeout_s: float

    @property
    def is_used_up(self) -> bool:
        """It cannot be sent again."""
        return isinstance(self.body, Pieces) and self.body.is_begun


class Caller:
    """Thread-safe; in a forked child it makes connections of its own."""

    def __init__(
        self,
        address: Address,
        *,
        runner: Runner,
        random: Random,
        retry_s: float = RETRY_S,
        answer_s: float = ANSWER_S,
    ) -> None:
        """`retry_s`: how long a call that is safe to repeat is repeated; 0 is not at all."""
        self.address = address
        self.runner = runner
        self._random = random
        self._retry_s = retry_s
        self._answer_s = answer_s
        self._connections = ConnectionPool(self._connect, runner=runner)
        self._fixed = _fixed_headers(address)

    def call(
        self,
        operation: Operation[Result],
        names: Names = NONE,
        *,
        query: Struct | None = None,
        body: Struct | None = None,
        is_repeatable: bool | None = None,
        wait_s: float = 0.0,
        busy_s: float | None = None,
        interruption: Interruption | None = None,
    ) -> Result:
        """What comes of it. `wait_s` is how long the call itself may wait before it is answered,
        `busy_s` how long a refusal is waited out; `is_repeatable` else as the table says."""
        answer = self.ask(
            operation,
            names,
            query=query,
            body=_encoded(body),
            body_media=media.MSGPACK,
            is_repeatable=is_repeatable,
            wait_s=wait_s,
            busy_s=busy_s,
            interruption=interruption,
        )
        return _result_of(operation, answer)

    def send(
        self, operation: Operation[Result], names: Names, *, query: Struct | None, body: Body
    ) -> Result:
        """The same with a body that is no document."""
        return _result_of(operation, self.ask(operation, names, query=query, body=body))

    def ask(
        self,
        operation: Operation[object],
        names: Names = NONE,
        *,
        query: Struct | None = None,
        body: Body = b"",
        body_media: str = media.BYTES,
        is_repeatable: bool | None = None,
        wait_s: float = 0.0,
        busy_s: float | None = None,
        interruption: Interruption | None = None,
    ) -> Answer:
        """The answer as it is, and its headers."""
        request = self._request(operation, names, query, body, body_media, wait_s)
        interruption = interruption or Interruption()

        def once() -> Answer:
            with self._connections.taken() as connection, interruption.of(connection):
                head = self._begin(connection, request)
                data = connection.read(
                    head, bytes_max=ANSWER_BYTES_MAX, timeout_s=request.timeout_s
                )
                return Answer(head.headers, data)

        may = operation.is_repeatable if is_repeatable is None else is_repeatable
        return self._repeated(once, request, interruption, is_repeatable=may, busy_s=busy_s)

    @contextmanager
    def stream(
        self, operation: Operation[object], names: Names = NONE, *, query: Struct | None = None
    ) -> Iterator[Streamed]:
        """The answer's body in pieces, of any length; begun again only before the first one."""
        request = self._request(operation, names, query, b"", media.BYTES, 0.0)
        with ExitStack() as stack:

            def once() -> Streamed:
                with ExitStack() as undo:
                    connection = undo.enter_context(self._connections.taken())
                    head = self._begin(connection, request)
                    stack.push(undo.pop_all())
                pieces = connection.pieces(head, timeout_s=request.timeout_s)
                return Streamed(head.headers, self._translated_pieces(pieces, request))

            yield self._repeated(once, request, Interruption(), is_repeatable=True, busy_s=None)

    def close(self) -> None:
        """Also ends what is under way, with `Closed`. Idempotent."""
        self._connections.close()

    # One exchange.

    def _connect(self) -> Connection:
        return Connection(connect(self.address, timeout_s=min(CONNECT_S, self._answer_s)))

    def _begin(self, connection: Connection, request: Request) -> Head:
        """The head of an answer that is no problem."""
        head = connection.ask(self._head(request), request.body, timeout_s=request.timeout_s)
        if head.status == request.operation.status or head.status in (200, 206):
            return head
        data = connection.read(head, bytes_max=PROBLEM_BYTES_MAX, timeout_s=request.timeout_s)
        raise _Refusal(
            _problem_of(head, data),
            status=head.status,
            retry_after_s=_retry_after_s(head.headers),
        )

    def _head(self, request: Request) -> bytes:
        lines = [f"{request.operation.method} {request.target} HTTP/1.1", *self._fixed]
        body = request.body
        if isinstance(body, Pieces):
            lines += [f"Content-Type: {request.media}", "Transfer-Encoding: chunked"]
        elif len(body):
            lines += [f"Content-Type: {request.media}", f"Content-Length: {len(body)}"]
        elif request.operation.method != "GET":
            lines.append("Content-Length: 0")
        return "\r\n".join([*lines, "", ""]).encode("latin-1")

    def _request(
        self,
        operation: Operation[object],
        names: Names,
        query: Struct | None,
        body: Body,
        body_media: str,
        wait_s: float,
    ) -> Request:
        target = target_of(operation, names, query)
        if not isinstance(body, Pieces) and len(body) > operation.body_bytes_max:
            # The server would not hear it out, and its refusal could be lost with the connection.
            raise TooLarge("the body", size=len(body), limit=operation.body_bytes_max)
        return Request(operation, target, body, body_media, self._answer_s + wait_s)

    # Again.

    def _repeated(
        self,
        once: Callable[[], Result],
        request: Request,
        interruption: Interruption,
        *,
        is_repeatable: bool,
        busy_s: float | None,
    ) -> Result:
        clock = self.runner.clock
        patience = RetrySchedule(
            is_repeatable=is_repeatable,
            now_ns=clock.monotonic_ns(),
            retry_s=self._retry_s,
            busy_s=busy_s,
            random=self._random,
        )
        is_doubtful = False  # it may have been carried out
        while True:
            try:
                return once()
            except Failure as failure:
                is_doubtful |= failure.is_sent
                self._check_open(interruption)
                delay_ns = patience.after_failure(failure, now_ns=clock.monotonic_ns())
                if delay_ns is None or request.is_used_up:
                    why = self._why(failure)
                    raise _unreachable(request, why, is_doubtful=is_doubtful) from None
            except _Refusal as refusal:
                delay_ns = patience.after_refusal(
                    refusal.error,
                    status=refusal.status,
                    retry_after_s=refusal.retry_after_s,
                    now_ns=clock.monotonic_ns(),
                )
                if delay_ns is None or request.is_used_up:
                    raise self._refused(request, refusal, is_doubtful=is_doubtful) from None
            except SourceFailed as failed:
                raise failed.error from None
            pause(self.runner, delay_ns)
            self._check_open(interruption)

    def _check_open(self, interruption: Interruption) -> None:
        self._connections.check()
        interruption.check()

    def _translated_pieces(self, pieces: Iterator[bytes], request: Request) -> Iterator[bytes]:
        try:
            yield from pieces
        except Failure as failure:
            self._connections.check()
            raise _unreachable(request, self._why(failure), is_doubtful=True) from None

    def _why(self, failure: Failure) -> str:
        return f"{self.address}: {failure}" if failure.is_sent else str(failure)

    def _refused(self, request: Request, refusal: _Refusal, *, is_doubtful: bool) -> LakebedError:
        """What to tell of a refusal: that nothing was done is true of the last try alone."""
        error = refusal.error
        may_come_again = refusal.status in REFUSALS or isinstance(error, RetryError | Closed)
        if not is_doubtful or not may_come_again or request.operation.method == "GET":
            return error
        why = f"{self.address}: an answer was lost, and then: {error}"
        return _unreachable(request, why, is_doubtful=True)


def _unreachable(request: Request, why: str, *, is_doubtful: bool) -> Unreachable:
    if request.operation.method == "GET":
        return Unreachable(why)
    what = "whether the call was carried out is not known"
    return Unreachable(f"{why}; {what if is_doubtful else 'the call was not carried out'}")


def target_of(operation: Operation[object], names: Names, query: Struct | None) -> str:
    """Path and query."""
    path = operation.path
    try:
        for name, value in names.items():
            text = str(value)
            if not text:
                raise BadName(f"{name}: an empty name")
            quoted = quote(text, safe="")
            path = path.replace("{" + name + "}", quoted).replace("{" + name + "*}", quoted)
        assert "{" not in path, f"{operation!r}: a name is missing"
        return path if query is None else path + _query_text(query)
    except UnicodeEncodeError:
        raise BadName(f"{operation.name}: a name that is no text") from None


def _query_text(query: Struct) -> str:
    """Only what is not as it is anyway."""
    defaults = {one.name: one.default for one in msgspec.structs.fields(query)}
    said = []
    for name, value in msgspec.structs.asdict(query).items():
        if value is None or (type(value), value) == (type(defaults[name]), defaults[name]):
            continue
        text = str(value).lower() if isinstance(value, bool) else str(value)
        said.append(f"{name}={quote(text, safe='')}")
    return "?" + "&".join(said) if said else ""


def _encoded(body: Struct | None) -> bytes:
    if body is None:
        return b""
    try:
        return media.encode(body, media.MSGPACK)
    except (TypeError, ValueError, OverflowError, BufferError) as error:
        raise InputError(f"what was given cannot be sent: {error}") from None


def _result_of(operation: Operation[Result], answer: Answer) -> Result:
    kind = operation.result
    if kind is Nothing:
        return kind()
    if kind is bytes:
        return cast("Result", bytes(answer.body))
    if answer.headers.get("content-type") != media.MSGPACK:
        raise BadAnswer(f"{operation.name}: the answer is not as it should be: no MessagePack")
    try:
        return media.decode(answer.body, kind, media.MSGPACK)
    except media.BadDocument as error:
        raise BadAnswer(f"{operation.name}: the answer is not as it should be: {error}") from None


def _problem_of(head: Head, data: bytes | bytearray) -> LakebedError:
    if head.headers.get("content-type") == media.PROBLEM:
        try:
            return error_of(msgspec.json.decode(data, type=dict))
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            pass
    text = shown(bytes(data[:200]).decode("utf-8", "replace"))
    if head.status in REFUSALS:
        return Busy(f"the server takes no call now: status {head.status}, {text}")
    return BadAnswer(f"what answers is no store: status {head.status}, {text}")


def _retry_after_s(headers: Mapping[str, str]) -> int:
    text = headers.get("retry-after", "")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else 0


def _fixed_headers(address: Address) -> list[str]:
    lines = [f"Host: {address.host_header}", f"Accept: {_ACCEPTED}"]
    if address.credentials is not None:
        lines.append(f"Authorization: {address.credentials.authorization}")
    return lines
