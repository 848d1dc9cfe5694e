"""What a request asks for: a typed operation, from its method, raw path, query and headers.

Nothing is guessed. Whatever is in the table (`routes`) is that; what S3 has and is not supported
is refused by name (`unsupported`); and a write with a parameter or a header that nobody knows is
refused too, since it may mean that something else should be written.
"""

from __future__ import annotations

from typing import Final

from lakebed.http.request import Request
from lakebed.s3.addressing import Address, address_of
from lakebed.s3.errors import S3Error, invalid_argument
from lakebed.s3.operations import Operation
from lakebed.s3.query import Query
from lakebed.s3.routes import ROUTES, SELECTORS, Level, Place, Route
from lakebed.s3.unsupported import check_headers, not_implemented

READS: Final = frozenset({"GET", "HEAD"})
METHODS: Final = frozenset({"GET", "HEAD", "PUT", "POST", "DELETE"})
HARMLESS: Final = frozenset({"x-id", "AWSAccessKeyId", "Signature", "Expires"})
"""Parameters that say nothing, or are for `auth`, who refuses them (`AWSAccessKeyId` …)."""

_COPY_SOURCE: Final = "x-amz-copy-source"
_NO_QUERY: Final = Query(b"")


def route(request: Request, *, domain: str) -> Operation:
    """What is asked for; `S3Error` if that cannot be.

    Headers that stand in the query of a presigned URL are among `request.headers` afterwards. So
    it comes after authentication, which looks at the headers that were sent.
    """
    method = request.method
    if method not in METHODS:
        raise _bad_method(method)
    query = Query(request.raw_query) if request.raw_query else _NO_QUERY
    hoist(request, query)
    address = address_of(request.raw_path, host=request.headers.get("host", ""), domain=domain)
    is_write = method not in READS
    check_headers(request.headers, is_write=is_write)
    found = _find(request, address, query)
    if is_write:
        _check_parameters(found, query)
    return found.read(address, query)


def hoist(request: Request, query: Query) -> None:
    """A header that was sent goes before one that stands in the query."""
    if found := query.hoisted():
        request.headers = {**found, **request.headers}


def _find(request: Request, address: Address, query: Query) -> Route:
    subresource = _subresource(query)
    place = Place(
        request.method,
        _level(address),
        subresource,
        has_source=request.method == "PUT" and _COPY_SOURCE in request.headers,
    )
    found = ROUTES.get(place)
    if found is not None:
        return found
    if subresource:
        raise not_implemented(
            f"{request.method} of the subresource {subresource} is not implemented",
            parameter=subresource,
        )
    if place.level is not Level.SERVICE and request.method == "POST":
        raise not_implemented("Uploads by POST are not implemented")
    if place.has_source:
        raise not_implemented("Only objects can be copied", header=_COPY_SOURCE)
    raise _not_allowed()


def _subresource(query: Query) -> str:
    selecting = query.names & SELECTORS
    if len(selecting) > 1:
        names = sorted(selecting)
        raise invalid_argument(
            f"Conflicting query string parameters: {', '.join(names)}",
            name="ResourceType",
            value=names[0],
        )
    return next(iter(selecting), "")


def _level(address: Address) -> Level:
    if address.key:
        return Level.OBJECT
    return Level.BUCKET if address.bucket else Level.SERVICE


def _check_parameters(found: Route, query: Query) -> None:
    """Of a write: what it does not take may mean another thing, or another object."""
    for name in query.names - found.parameters - HARMLESS:
        if name == "versionId":
            raise invalid_argument(
                "This operation does not accept a version-id.",
                name=name,
                value=query.text(name),
            )
        raise not_implemented("A parameter you provided is not implemented", parameter=name)


def _bad_method(method: str) -> S3Error:
    if method == "OPTIONS":
        return S3Error("AccessForbidden", "CORSResponse: CORS is not enabled for this bucket.")
    return _not_allowed()


def _not_allowed() -> S3Error:
    return S3Error("MethodNotAllowed", "The specified method is not allowed against this resource.")
