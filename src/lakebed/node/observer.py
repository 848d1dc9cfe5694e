"""Counts and times the requests of an endpoint, and logs them if the access log is on.

All methods must be called in the thread of the event loop. Only the first 200 buckets and the first
200 access keys are counted separately; the others are counted together as `(other)`.
"""

from __future__ import annotations

import logging
from bisect import bisect_left
from collections import Counter as Tally
from collections.abc import Awaitable
from typing import Final, NamedTuple, TypeVar

from lakebed.base.clock import NS_PER_MS, NS_PER_S
from lakebed.base.counters import HistogramSnapshot
from lakebed.base.events import event
from lakebed.base.layout import Buffer
from lakebed.http.request import Request
from lakebed.http.request_id import CURRENT
from lakebed.http.responder import Handler
from lakebed.http.response import Response
from lakebed.node.logs import ACCESS_LOGGER
from lakebed.node.metric_names import SECONDS
from lakebed.s3.auth.redaction import redacted

NO_OPERATION: Final = "none"  # the request was refused before it was routed
OTHER: Final = "(other)"
TOLD_APART_MAX: Final = 200
_BUCKET_CHARACTERS_MAX: Final = 63
_BOUNDS_NS: Final = tuple(int(bound * NS_PER_S) for bound in SECONDS)
_LONGEST_NS: Final = 1 << 63

_log = logging.getLogger(ACCESS_LOGGER)

Result = TypeVar("Result")


class RequestCounts(NamedTuple):
    """The number of requests by label and status class, and their durations in ns by label."""

    requests: dict[tuple[str, str], int]
    durations: dict[str, HistogramSnapshot]


class RequestSnapshot(NamedTuple):
    """The counts of an endpoint's requests at one moment."""

    endpoint: str
    by_operation: RequestCounts
    by_bucket: RequestCounts
    by_key: RequestCounts
    inflight: dict[str, int]
    bytes_in: int
    bytes_out: int


class Observer:
    """Counts the requests of one endpoint.

    `wrapped` wraps the handler of the server. The server must call `done` at the end of each
    request.
    """

    def __init__(self, endpoint: str) -> None:
        self._endpoint = endpoint
        self._inflight: set[Request] = set()
        self._by_operation = _Counts()
        self._by_bucket = _Counts()
        self._by_key = _Counts()
        self._bytes_in = 0
        self._bytes_out = 0

    def wrapped(self, handler: Handler) -> Handler:
        def observed(request: Request) -> Response | Awaitable[Response]:
            self._inflight.add(request)
            token = CURRENT.set(request.id)
            try:
                result = handler(request)
            finally:
                CURRENT.reset(token)
            if isinstance(result, Response) and isinstance(result.body, Buffer):
                return result
            return _within(request.id, result)

        return observed

    def done(
        self, request: Request | None, status: int, received: int, sent: int, duration_ns: int
    ) -> None:
        """Counts a finished request, and logs it if the access log is on. Called by the server.

        `request` is None if the request was refused before it could be handled, for example because
        it could not be parsed; then it is not logged here.
        """
        self._bytes_in += received
        self._bytes_out += sent
        label = None if request is None else request.label
        operation = NO_OPERATION if label is None else label.operation
        self._by_operation.add(operation, status, duration_ns)
        if label is not None and label.bucket:
            bucket = label.bucket if _is_plain(label.bucket) else OTHER
            self._by_bucket.add(bucket, status, duration_ns)
        if label is not None and label.access_key:
            self._by_key.add(label.access_key, status, duration_ns)
        if request is None:
            return
        self._inflight.discard(request)
        if _log.isEnabledFor(logging.INFO):
            self._log(request, status, received, sent, duration_ns)

    def snapshot(self) -> RequestSnapshot:
        labels = (request.label for request in self._inflight)
        inflight = Tally(NO_OPERATION if label is None else label.operation for label in labels)
        return RequestSnapshot(
            self._endpoint,
            self._by_operation.counted(),
            self._by_bucket.counted(),
            self._by_key.counted(),
            dict(inflight),
            self._bytes_in,
            self._bytes_out,
        )

    def _log(
        self, request: Request, status: int, received: int, sent: int, duration_ns: int
    ) -> None:
        label = request.label
        event(
            _log,
            "request",
            request_id=request.id,
            endpoint=self._endpoint,
            operation=NO_OPERATION if label is None else label.operation,
            method=request.method,
            path=request.raw_path[:1024].decode("latin-1"),
            query=redacted(request.raw_query)[:1024],
            status=status,
            bytes_in=received,
            bytes_out=sent,
            duration_ms=round(duration_ns / NS_PER_MS, 3),
            peer=request.peer,
            access_key="" if label is None else label.access_key,
        )


class _Counts:
    """Counts requests by name, for a limited number of names. Not thread-safe."""

    def __init__(self) -> None:
        self._found: dict[str, _Kind] = {}

    def add(self, name: str, status: int, duration_ns: int) -> None:
        kind = self._found.get(name)
        if kind is None:
            if len(self._found) >= TOLD_APART_MAX:
                name = OTHER
            kind = self._found.setdefault(name, _Kind())
        kind.statuses[status // 100] += 1
        kind.durations[bisect_left(_BOUNDS_NS, duration_ns)] += 1
        kind.total_ns += duration_ns

    def counted(self) -> RequestCounts:
        requests = {
            (name, f"{status_class}xx"): count
            for name, kind in self._found.items()
            for status_class, count in kind.statuses.items()
        }
        return RequestCounts(
            requests, {name: kind.snapshot() for name, kind in self._found.items()}
        )


class _Kind:
    __slots__ = ("durations", "statuses", "total_ns")

    def __init__(self) -> None:
        self.statuses: Tally[int] = Tally()
        self.durations = [0] * (len(_BOUNDS_NS) + 1)
        self.total_ns = 0

    def snapshot(self) -> HistogramSnapshot:
        buckets = tuple(zip((*_BOUNDS_NS, _LONGEST_NS), self.durations, strict=True))
        return HistogramSnapshot(sum(self.durations), self.total_ns, _LONGEST_NS, buckets)


def _is_plain(bucket: str) -> bool:
    """Returns whether the text looks like the name of a bucket, and not like arbitrary client
    input.
    """
    return len(bucket) <= _BUCKET_CHARACTERS_MAX and bucket.isascii() and bucket.isprintable()


async def _within(request_id: str, result: Response | Awaitable[Response]) -> Response:
    """Awaits the response and returns it. Log lines of this task get the id of the request."""
    CURRENT.set(request_id)
    return result if isinstance(result, Response) else await result
