"""Calls operations of `lakebed.api` over HTTP, with MessagePack documents in both directions.

    caller.call(topics.DESCRIBE_TOPIC, {"topic": "orders"})

If the server reports a problem, the call raises the same error that the embedded API would raise.
If there is no response, it raises `Unreachable`, which states the reason and, unless the call is a
GET, whether it may have run. `retry_schedule` decides which calls are retried.
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
ANSWER_S: Final = 30.0  # without a byte, in addition to what the call itself waits
ANSWER_BYTES_MAX: Final = 256 * MIB
PROBLEM_BYTES_MAX: Final = 1 * MIB

_ACCEPTED: Final = f"{media.MSGPACK}, {Raw.BYTES.value}"

Result = TypeVar("Result")
Names = Mapping[str, object]
NONE: Names = {}


class Answer(NamedTuple):
    """A successful response with its whole body."""

    headers: Mapping[str, str]  # by lower-case name
    body: bytes | bytearray


class Streamed(NamedTuple):
    """A successful response whose body is read in pieces."""

    headers: Mapping[str, str]
    pieces: Iterator[bytes]


class _Refusal(Exception):
    """Raised when the server responds with an error."""

    def __init__(self, error: LakebedError, *, status: int, retry_after_s: int) -> None:
        super().__init__(str(error))
        self.error = error
        self.status = status
        self.retry_after_s = retry_after_s


class Request(NamedTuple):
    """An encoded request."""

    operation: Operation[object]
    target: str
    body: Body
    media: str  # of the body
    timeout_s: float

    @property
    def is_used_up(self) -> bool:
        """Whether the body was partly read from its source, so that it cannot be sent again."""
        return isinstance(self.body, Pieces) and self.body.is_begun


class Caller:
    """Calls the operations of one store. Thread-safe; a forked child makes its own connections."""

    def __init__(
        self,
        address: Address,
        *,
        runner: Runner,
        random: Random,
        retry_s: float = RETRY_S,
        answer_s: float = ANSWER_S,
    ) -> None:
        """`retry_s` limits how long a call is retried, in seconds, if a retry is safe; 0 disables
        retries.

        `answer_s` limits how long the server may send nothing, in seconds.
        """
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
        """Calls an operation and returns its result.

        `names` are the names in the path of the operation, such as that of a topic. `wait_s` is how
        long the server itself may wait before it responds. `busy_s`, if shorter than `retry_s`,
        limits how long the call is retried while the server is busy. `is_repeatable` states whether
        the call may run twice; by default, the operation declares it.
        """
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
        """Calls an operation with a raw body, such as the bytes of an object, and returns its
        result."""
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
        """Calls an operation and returns the raw response. The arguments are those of `call`."""
        request = self._request(operation, names, query, body, body_media, wait_s)
        interruption = interruption or Interruption()

        def once() -> Answer:
            with self._connections.taken() as connection, interruption.of(connection):
                head = self._begin(connection, request)
                data = connection.read(
                    head, bytes_max=ANSWER_BYTES_MAX, timeout_s=request.timeout_s
                )
                return Answer(head.headers, data)

        repeats = operation.is_repeatable if is_repeatable is None else is_repeatable
        return self._repeated(once, request, interruption, is_repeatable=repeats, busy_s=busy_s)

    @contextmanager
    def stream(
        self, operation: Operation[object], names: Names = NONE, *, query: Struct | None = None
    ) -> Iterator[Streamed]:
        """Calls an operation and yields the response, whose body is read in pieces. The call is
        not retried after the body has begun."""
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
        """Closes all connections. Calls in progress end with `Closed`. Idempotent."""
        self._connections.close()

    # One exchange.

    def _connect(self) -> Connection:
        return Connection(connect(self.address, timeout_s=min(CONNECT_S, self._answer_s)))

    def _begin(self, connection: Connection, request: Request) -> Head:
        """Sends the request and returns the head of the response. Raises `_Refusal` if the server
        responds with an error."""
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
            # The server would stop reading, and its refusal could be lost with the connection.
            what = "the size of the request body in bytes"
            raise TooLarge(what, size=len(body), limit=operation.body_bytes_max)
        return Request(operation, target, body, body_media, self._answer_s + wait_s)

    # Retries.

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
        schedule = RetrySchedule(
            is_repeatable=is_repeatable,
            now_ns=clock.monotonic_ns(),
            retry_s=self._retry_s,
            busy_s=busy_s,
            random=self._random,
        )
        is_doubtful = False  # an earlier attempt may have run
        while True:
            try:
                return once()
            except Failure as failure:
                is_doubtful |= failure.is_sent
                self._check_open(interruption)
                delay_ns = schedule.after_failure(failure, now_ns=clock.monotonic_ns())
                if delay_ns is None or request.is_used_up:
                    why = self._why(failure)
                    raise _unreachable(request, why, is_doubtful=is_doubtful) from None
            except _Refusal as refusal:
                delay_ns = schedule.after_refusal(
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
        """Returns the error to raise for a call whose last attempt the server refused.

        Usually this is the server's error. But if the response to an earlier attempt was lost, that
        attempt may have run. Then an error that only means that the last attempt was not run, such
        as `Busy`, is replaced with `Unreachable`, unless the call is a GET.
        """
        error = refusal.error
        is_retryable = refusal.status in REFUSALS or isinstance(error, RetryError | Closed)
        if not is_doubtful or not is_retryable or request.operation.method == "GET":
            return error
        why = f"{self.address}: a response was lost, and the retry was refused: {error}"
        return _unreachable(request, why, is_doubtful=True)


def _unreachable(request: Request, why: str, *, is_doubtful: bool) -> Unreachable:
    if request.operation.method == "GET":
        return Unreachable(why)
    doubt = "it is unknown whether the call ran"
    return Unreachable(f"{why}; {doubt if is_doubtful else 'the call did not run'}")


def target_of(operation: Operation[object], names: Names, query: Struct | None) -> str:
    """Returns the path and the query of a request. Raises `BadName` if a name is empty, or if a
    name or query parameter cannot be encoded."""
    path = operation.path
    try:
        for name, value in names.items():
            text = str(value)
            if not text:
                raise BadName(f"{name}: the name is empty")
            quoted = quote(text, safe="")
            path = path.replace("{" + name + "}", quoted).replace("{" + name + "*}", quoted)
        assert "{" not in path, f"{operation!r}: a name of the path is missing"
        return path if query is None else path + _query_text(query)
    except UnicodeEncodeError:
        raise BadName(
            f"{operation.name}: a name or a query parameter is not valid Unicode text"
        ) from None


def _query_text(query: Struct) -> str:
    """Encodes the fields of a query that are not None and differ from their defaults."""
    defaults = {field.name: field.default for field in msgspec.structs.fields(query)}
    parameters = []
    for name, value in msgspec.structs.asdict(query).items():
        if value is None or (type(value), value) == (type(defaults[name]), defaults[name]):
            continue
        text = str(value).lower() if isinstance(value, bool) else str(value)
        parameters.append(f"{name}={quote(text, safe='')}")
    return "?" + "&".join(parameters) if parameters else ""


def _encoded(body: Struct | None) -> bytes:
    if body is None:
        return b""
    try:
        return media.encode(body, media.MSGPACK)
    except (TypeError, ValueError, OverflowError, BufferError) as error:
        raise InputError(f"the arguments cannot be encoded: {error}") from None


def _result_of(operation: Operation[Result], answer: Answer) -> Result:
    kind = operation.result
    if kind is Nothing:
        return kind()
    if kind is bytes:
        return cast("Result", bytes(answer.body))
    if answer.headers.get("content-type") != media.MSGPACK:
        raise BadAnswer(f"{operation.name}: the response is not valid: it is not MessagePack")
    try:
        return media.decode(answer.body, kind, media.MSGPACK)
    except media.BadDocument as error:
        raise BadAnswer(f"{operation.name}: the response is not valid: {error}") from None


def _problem_of(head: Head, data: bytes | bytearray) -> LakebedError:
    if head.headers.get("content-type") == media.PROBLEM:
        try:
            return error_of(msgspec.json.decode(data, type=dict))
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            pass
    text = shown(bytes(data[:200]).decode("utf-8", "replace"))
    if head.status in REFUSALS:
        return Busy(f"the server accepts no calls now: status {head.status}, {text}")
    return BadAnswer(f"the response is not from a Lakebed store: status {head.status}, {text}")


def _retry_after_s(headers: Mapping[str, str]) -> int:
    text = headers.get("retry-after", "")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else 0


def _fixed_headers(address: Address) -> list[str]:
    lines = [f"Host: {address.host_header}", f"Accept: {_ACCEPTED}"]
    if address.credentials is not None:
        lines.append(f"Authorization: {address.credentials.authorization}")
    return lines
