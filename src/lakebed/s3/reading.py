"""GetObject and HeadObject: an object on its way out.

A small object is answered at once, in the loop's thread. A larger one is read chunk by chunk in
another thread, each verified by the store before a byte of it leaves, and while one is sent the
next one is read: two chunks of a request are in memory, whatever its size. A chunk that is damaged
is an error while nothing was sent; later the connection is cut, since the length was told.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Final, NamedTuple, Self, TypeVar

from lakebed.base.errors import InputError
from lakebed.base.layout import Buffer
from lakebed.base.units import KIB
from lakebed.http.request import Request
from lakebed.http.response import FileSlice, Piece, Response
from lakebed.s3.auth.identity import Identity
from lakebed.s3.checksums import checksum_headers
from lakebed.s3.conditions import read_condition
from lakebed.s3.errors import S3Error, to_s3
from lakebed.s3.fields import (
    HeaderList,
    check_tellable,
    http_date,
    object_headers,
    told_version,
    wire,
)
from lakebed.s3.operations import GetObject
from lakebed.s3.ranges import Sections, Span, spans_of
from lakebed.s3.service import Service
from lakebed.seglake.chunk_reader import FilePlace
from lakebed.seglake.conditions import NotModified
from lakebed.seglake.errors import MethodNotAllowed
from lakebed.seglake.model import ObjectInfo
from lakebed.seglake.ranges import part_range
from lakebed.seglake.reading import ObjectReader

AT_ONCE_BYTES_MAX: Final = 64 * KIB

_OK, _PARTIAL, _NOT_MODIFIED = 200, 206, 304
_ALSO_UNMODIFIED: Final = frozenset(
    {"etag", "last-modified", "cache-control", "expires", "x-amz-version-id"}
)


Got = TypeVar("Got")
_Piece = Buffer | FilePlace


class _Answer(NamedTuple):
    """What is told; of a part of the object, `spans`."""

    status: int
    headers: HeaderList
    reader: ObjectReader
    length: int
    spans: Sequence[Span] = ()
    sections: Sections | None = None


def head_object(
    service: Service, operation: GetObject, request: Request, _identity: Identity
) -> Response:
    answer = _answer(service, operation, request)
    if answer.status == _NOT_MODIFIED:
        return Response(_NOT_MODIFIED, answer.headers)
    return Response(answer.status, answer.headers, length=answer.length)


def get_object(
    service: Service, operation: GetObject, request: Request, _identity: Identity
) -> Response | Awaitable[Response]:
    answer = _answer(service, operation, request)
    if answer.status == _NOT_MODIFIED:
        return Response(_NOT_MODIFIED, answer.headers)
    if answer.reader.info.size <= AT_ONCE_BYTES_MAX:
        return Response(answer.status, answer.headers, b"".join(_pieces(answer, iter)))
    return _streamed(service, answer, is_plain=not request.is_secure)


def _answer(service: Service, operation: GetObject, request: Request) -> _Answer:
    headers = request.headers
    reader = _found(service, operation)
    info = reader.info
    told = object_headers(info, version_id=told_version(service, info))
    condition = read_condition(headers)
    if condition is not None:
        try:
            condition.check(etag=info.etag, modified_ms=info.modified_ms)
        except NotModified:
            kept = [one for one in told if one[0].lower() in _ALSO_UNMODIFIED]
            return _Answer(_NOT_MODIFIED, kept, reader, 0)
    if operation.overrides:
        told = _overridden(told, operation.overrides)
    if operation.part_number is not None:
        spans = _part_span(info, operation.part_number, has_range="range" in headers)
        if info.part_sizes:
            told.append(("x-amz-mp-parts-count", str(len(info.part_sizes))))
    else:
        spans = spans_of(headers, info) if "range" in headers else None
    if spans is None:
        if headers.get("x-amz-checksum-mode", "").upper() == "ENABLED":
            told += checksum_headers(info.checksums)
        return _Answer(_OK, told, reader, info.size)
    return _partial(told, reader, spans, boundary=request.id)


def _found(service: Service, operation: GetObject) -> ObjectReader:
    try:
        return service.lake.objects.get(
            operation.bucket, operation.key, version_id=operation.version_id, waits=False
        )
    except MethodNotAllowed as error:
        told = to_s3(error)
        raise S3Error(
            told.code,
            str(told),
            headers=(*told.headers, ("Last-Modified", http_date(error.modified_ms))),
            details=told.details,
        ) from error


def _partial(
    told: HeaderList, reader: ObjectReader, spans: Sequence[Span], *, boundary: str
) -> _Answer:
    size = reader.info.size
    if len(spans) == 1:
        if spans[0].start < spans[0].end:  # a part without bytes has no range
            told.append(("Content-Range", spans[0].told(size)))
        return _Answer(_PARTIAL, told, reader, spans[0].end - spans[0].start, spans)
    content_type = next(value for name, value in told if name.lower() == "content-type")
    sections = Sections(spans, size=size, content_type=content_type, boundary=boundary)
    told = _overridden(told, [("Content-Type", sections.content_type)])
    return _Answer(_PARTIAL, told, reader, sections.length, spans, sections)


def _part_span(info: ObjectInfo, number: int, *, has_range: bool) -> list[Span] | None:
    if has_range:
        raise S3Error(
            "InvalidRequest", "Cannot specify both Range header and partNumber query parameter"
        )
    try:
        found = part_range(info, number)
    except InputError:
        raise S3Error(
            "InvalidPart",
            "The object has no part of that number.",
            details=(
                ("PartNumberRequested", str(number)),
                ("ActualPartCount", str(max(1, len(info.part_sizes)))),
            ),
        ) from None
    if not info.size:
        return None
    if found is None:
        return [Span(0, info.size)]
    return [Span(found.start, found.stop)]


def _overridden(told: HeaderList, overrides: Sequence[tuple[str, str]]) -> HeaderList:
    """With these in the place of those of the same names."""
    for name, value in overrides:
        check_tellable(name, value)
    names = {name.lower() for name, _ in overrides}
    kept = [one for one in told if one[0].lower() not in names]
    return kept + [(name, wire(value)) for name, value in overrides]


async def _streamed(service: Service, answer: _Answer, *, is_plain: bool) -> Response:
    pieces = _pieces(answer, ObjectReader.places if is_plain else iter)
    first = await service.run(partial(next, pieces, None))
    body = b"" if first is None else _ReadAhead(service, first, pieces)
    return Response(answer.status, answer.headers, body, length=answer.length)


class _ReadAhead:
    """A body: while one piece is sent, the next one is read. To be closed, also if it fails."""

    def __init__(self, service: Service, first: _Piece, rest: Iterator[_Piece]) -> None:
        self._service = service
        self._rest = rest
        self._current: _Piece | None = None  # being sent
        self._next: _Piece | None = first
        self._ahead: asyncio.Future[_Piece | None] | None = None

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Piece:
        self._release()
        if self._ahead is not None:
            self._next = await self._ahead
            self._ahead = None
        self._current, self._next = self._next, None
        if self._current is None:
            raise StopAsyncIteration
        self._ahead = asyncio.ensure_future(self._service.run(partial(next, self._rest, None)))
        if isinstance(self._current, FilePlace):
            return FileSlice(self._current.descriptor, self._current.offset, self._current.length)
        return self._current

    async def aclose(self) -> None:
        self._release()
        self._current, self._next = self._next, None
        self._release()
        if self._ahead is not None:
            self._ahead.add_done_callback(_let_go)
            await asyncio.wait([self._ahead])

    def _release(self) -> None:
        if isinstance(self._current, FilePlace):
            self._current.release()
        self._current = None


def _pieces(
    answer: _Answer, read: Callable[[ObjectReader], Iterable[Got]]
) -> Iterator[bytes | Got]:
    """The bytes of the answer, as they are read."""
    reader, spans, sections = answer.reader, answer.spans, answer.sections
    if not spans:
        yield from read(reader)
    for place, (start, end) in enumerate(spans):
        if sections is not None:
            yield sections.heads[place]
        yield from read(reader.between(start, end))
    if sections is not None:
        yield sections.end


def _let_go(done: asyncio.Future[_Piece | None]) -> None:
    """Whoever was to be sent this is gone."""
    if not done.cancelled() and done.exception() is None:
        piece = done.result()
        if isinstance(piece, FilePlace):
            piece.release()
