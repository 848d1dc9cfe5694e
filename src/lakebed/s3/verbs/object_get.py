"""GetObject and HeadObject: `GET` and `HEAD` of `/bucket/key`.

A small object is read and returned in the event loop's thread. A larger object is read chunk by
chunk in another thread (`edge.read_ahead`); the store verifies each chunk before any of its bytes
are sent. If the first chunk of a larger object is damaged, the client gets an error. If a later
chunk is damaged, or any chunk of a response with several ranges, the connection is closed, because
the status and the length were already sent.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeVar

from lakebed.base.errors import InputError
from lakebed.base.units import KIB
from lakebed.edge.read_ahead import read_ahead
from lakebed.http.request import Request
from lakebed.http.response import Response
from lakebed.s3.address import Address
from lakebed.s3.auth.identity import Identity
from lakebed.s3.checksums import checksum_headers
from lakebed.s3.conditions import read_condition
from lakebed.s3.errors import S3Error, invalid_argument
from lakebed.s3.object_headers import (
    HeaderList,
    check_encodable,
    marker_refusal,
    object_headers,
    shown_version,
    wire,
)
from lakebed.s3.query import Query
from lakebed.s3.ranges import Sections, Span, spans_of
from lakebed.s3.service import Service
from lakebed.s3.verb import Level, OnVersion, Operation, Place, Verb
from lakebed.seglake.conditions import NotModified
from lakebed.seglake.errors import MethodNotAllowed
from lakebed.seglake.model import ObjectInfo
from lakebed.seglake.object_reader import ObjectReader
from lakebed.seglake.ranges import part_range

AT_ONCE_BYTES_MAX: Final = 64 * KIB
OVERRIDES: Final = {
    f"response-{header}": header
    for header in (
        "cache-control",
        "content-disposition",
        "content-encoding",
        "content-language",
        "content-type",
        "expires",
    )
}
"""Query parameters that set a response header, and the name of that header."""

_OK, _PARTIAL, _NOT_MODIFIED = 200, 206, 304
_ALSO_UNMODIFIED: Final = frozenset(
    {"etag", "last-modified", "cache-control", "expires", "x-amz-version-id"}
)


Got = TypeVar("Got")


@dataclass(frozen=True, kw_only=True, slots=True)
class GetObject(OnVersion):
    """A request to read an object or one part of it.

    `overrides` are the names and values of response headers, from the `response-…` parameters.
    """

    part_number: int | None = None
    overrides: tuple[tuple[str, str], ...] = ()

    @classmethod
    def read(cls, address: Address, query: Query, /) -> Operation:
        if not query.names:
            return cls(bucket=address.bucket, key=address.key)
        return cls(
            bucket=address.bucket,
            key=address.key,
            version_id=query.version_id(),
            part_number=query.part_number(),
            overrides=tuple(_requested_overrides(query)),
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class HeadObject(GetObject): ...


class _Answer(NamedTuple):
    """The status and headers of a response, and the reader of its body.

    `spans` are the requested ranges; empty means the whole object.
    """

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


def _requested_overrides(query: Query) -> Iterator[tuple[str, str]]:
    for name, header in OVERRIDES.items():
        value = query.optional(name)
        if value is None:
            continue
        if not value.isprintable():
            raise invalid_argument(
                "The value of a response header must consist of printable characters",
                name=name,
                value=value,
            )
        yield header, value


def _answer(service: Service, operation: GetObject, request: Request) -> _Answer:
    requested = request.headers
    reader = _open_object(service, operation)
    info = reader.info
    headers = object_headers(info, version_id=shown_version(service, info))
    condition = read_condition(requested)
    if condition is not None:
        try:
            condition.check(etag=info.etag, modified_ms=info.modified_ms)
        except NotModified:
            kept = [header for header in headers if header[0].lower() in _ALSO_UNMODIFIED]
            return _Answer(_NOT_MODIFIED, kept, reader, 0)
    if operation.overrides:
        headers = _overridden(headers, operation.overrides)
    if operation.part_number is not None:
        spans = _part_span(info, operation.part_number, has_range="range" in requested)
        if info.part_sizes:
            headers.append(("x-amz-mp-parts-count", str(len(info.part_sizes))))
    else:
        spans = spans_of(requested, info) if "range" in requested else None
    if spans is None:
        if requested.get("x-amz-checksum-mode", "").upper() == "ENABLED":
            headers += checksum_headers(info.checksums)
        return _Answer(_OK, headers, reader, info.size)
    return _partial(headers, reader, spans, boundary=request.id)


def _open_object(service: Service, operation: GetObject) -> ObjectReader:
    try:
        return service.lake.objects.get(
            operation.bucket, operation.key, version_id=operation.version_id, waits=False
        )
    except MethodNotAllowed as error:
        raise marker_refusal(error) from error


def _partial(
    headers: HeaderList, reader: ObjectReader, spans: Sequence[Span], *, boundary: str
) -> _Answer:
    size = reader.info.size
    if len(spans) == 1:
        if spans[0].start < spans[0].end:  # a part without bytes has no range
            headers.append(("Content-Range", spans[0].content_range(size)))
        return _Answer(_PARTIAL, headers, reader, spans[0].end - spans[0].start, spans)
    content_type = next(value for name, value in headers if name.lower() == "content-type")
    sections = Sections(spans, size=size, content_type=content_type, boundary=boundary)
    headers = _overridden(headers, [("Content-Type", sections.content_type)])
    return _Answer(_PARTIAL, headers, reader, sections.length, spans, sections)


def _part_span(info: ObjectInfo, number: int, *, has_range: bool) -> list[Span] | None:
    if has_range:
        raise S3Error(
            "InvalidRequest", "Cannot specify both Range header and partNumber query parameter"
        )
    try:
        part_bytes = part_range(info, number)
    except InputError:
        raise S3Error(
            "InvalidPart",
            "The object has no part with that number.",
            details=(
                ("PartNumberRequested", str(number)),
                ("ActualPartCount", str(max(1, len(info.part_sizes)))),
            ),
        ) from None
    if not info.size:
        return None
    if part_bytes is None:
        return [Span(0, info.size)]
    return [Span(part_bytes.start, part_bytes.stop)]


def _overridden(headers: HeaderList, overrides: Sequence[tuple[str, str]]) -> HeaderList:
    """Returns `headers` with `overrides` added, which replace headers of the same name."""
    for name, value in overrides:
        check_encodable(name, value)
    names = {name.lower() for name, _ in overrides}
    kept = [header for header in headers if header[0].lower() not in names]
    return kept + [(name, wire(value)) for name, value in overrides]


async def _streamed(service: Service, answer: _Answer, *, is_plain: bool) -> Response:
    pieces = _pieces(answer, ObjectReader.places if is_plain else iter)
    body = await read_ahead(service, pieces)
    return Response(answer.status, answer.headers, body, length=answer.length)


def _pieces(
    answer: _Answer, read: Callable[[ObjectReader], Iterable[Got]]
) -> Iterator[bytes | Got]:
    """Yields the pieces of the response body. `read` reads one range of the object."""
    reader, spans, sections = answer.reader, answer.spans, answer.sections
    if not spans:
        yield from read(reader)
    for index, (start, end) in enumerate(spans):
        if sections is not None:
            yield sections.heads[index]
        yield from read(reader.between(start, end))
    if sections is not None:
        yield sections.end


_PARAMETERS: Final = frozenset({"versionId", "partNumber", *OVERRIDES})
_HEADERS: Final = frozenset({"x-amz-checksum-mode"})

VERBS: Final = (
    Verb(
        operation=GetObject,
        place=Place("GET", Level.OBJECT),
        handle=get_object,
        action="s3:GetObject",
        writes=False,
        parameters=_PARAMETERS,
        headers=_HEADERS,
    ),
    Verb(
        operation=HeadObject,
        place=Place("HEAD", Level.OBJECT),
        handle=head_object,
        action="s3:GetObject",
        writes=False,
        parameters=_PARAMETERS,
        headers=_HEADERS,
    ),
)
