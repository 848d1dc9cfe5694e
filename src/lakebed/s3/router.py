"""Finds the verb (the declared S3 operation) for a request, and parses its path and query.

The routing table is built from the declarations in `verbs` and `absent_configuration`. A request
for an S3 subresource without a route is refused, and the error names the subresource. A write is
also refused if it has an unknown `x-amz-` header, or a query parameter that its verb does not
declare and that is not in `HARMLESS`, because ignoring it could write something other than the
client intended. Reads ignore most of these.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Mapping
from importlib import import_module
from typing import Final

from lakebed.http.request import Request
from lakebed.s3 import absent_configuration, verbs
from lakebed.s3.address import Address, address_of
from lakebed.s3.errors import S3Error, invalid_argument
from lakebed.s3.query import Query
from lakebed.s3.unsupported import HEADERS, HEADERS_STARTING, SUBRESOURCES, not_implemented
from lakebed.s3.verb import AnyVerb, Level, Operation, Place

METHODS: Final = frozenset({"GET", "HEAD", "PUT", "POST", "DELETE"})
HARMLESS: Final = frozenset({"x-id", "AWSAccessKeyId", "Signature", "Expires"})
"""Query parameters that the router accepts for any verb.

They have no effect, or authentication has already refused them.
"""

_SHARED_HEADERS: Final = frozenset(
    {
        "x-amz-checksum-algorithm",
        "x-amz-checksum-crc32",
        "x-amz-checksum-crc32c",
        "x-amz-checksum-crc64nvme",
        "x-amz-checksum-sha1",
        "x-amz-checksum-sha256",
        "x-amz-checksum-type",
        "x-amz-content-sha256",
        "x-amz-date",
        "x-amz-decoded-content-length",
        "x-amz-sdk-checksum-algorithm",
        "x-amz-security-token",
        "x-amz-trailer",
    }
)
"""Headers that the router accepts for every verb: they belong to authentication or to the body."""

_COPY_SOURCE: Final = "x-amz-copy-source"
_NO_QUERY: Final = Query(b"")
_REFUSED_HEADER: Final = "A header you provided implies functionality that is not implemented"


def _declared() -> tuple[AnyVerb, ...]:
    """Collects the verbs of every module in `verbs`, in the order of the modules' names.

    The package is listed once, at import, so that a new subresource needs only one new file.
    """
    names = sorted(module.name for module in pkgutil.iter_modules(verbs.__path__))
    modules = [import_module(f"{verbs.__name__}.{name}") for name in names]
    return tuple(verb for module in modules for verb in module.VERBS)


VERBS: Final[tuple[AnyVerb, ...]] = _declared()

ROUTES: Final[Mapping[Place, AnyVerb]] = {
    verb.place: verb for verb in (*absent_configuration.VERBS, *VERBS)
}

SELECTORS: Final = SUBRESOURCES | {place.subresource for place in ROUTES if place.subresource}
"""All query parameters that select a subresource; a request may have at most one of them."""

SUPPORTED_HEADERS: Final = _SHARED_HEADERS.union(*(verb.headers for verb in VERBS))
"""All `x-amz-` headers that the S3 endpoint reads, except `x-amz-meta-` headers."""


def route(request: Request, *, domain: str) -> tuple[AnyVerb, Operation]:
    """Returns the verb of a request and the typed request.

    Raises `S3Error` if no verb matches, or if a header or parameter is not supported or not valid.
    Adds the headers in a presigned URL's query to `request.headers`, so it must be called after
    authentication, which needs the headers as they were sent.
    """
    method = request.method
    if method not in METHODS:
        raise _bad_method(method)
    query = Query(request.raw_query) if request.raw_query else _NO_QUERY
    hoist(request, query)
    address = address_of(request.raw_path, host=request.headers.get("host", ""), domain=domain)
    verb = _find(request, address, query)
    check_headers(request.headers, is_write=verb.writes)
    if verb.writes and query.names:
        _check_parameters(verb, query)
    return verb, verb.operation.read(address, query)


def hoist(request: Request, query: Query) -> None:
    """Adds the headers in a presigned URL's query to `request.headers`.

    If the request also has such a header itself, the value of the header takes precedence.
    """
    if headers := query.hoisted():
        request.headers = {**headers, **request.headers}


def check_headers(headers: Mapping[str, str], *, is_write: bool) -> None:
    """Raises `S3Error` if a header requests an unsupported feature.

    In a write, unknown `x-amz-` headers are refused too, except `x-amz-meta-` headers.
    """
    for name, value in headers.items():
        if not name.startswith("x-amz-") or name in SUPPORTED_HEADERS:
            continue
        if name.startswith("x-amz-meta-"):
            continue
        accepted = HEADERS.get(name)
        if accepted is None:
            if is_write or name.startswith(HEADERS_STARTING):
                raise not_implemented(_REFUSED_HEADER, header=name)
        elif accepted.values is not None and value.strip().lower() not in accepted.values:
            if accepted.code == "NotImplemented":
                raise not_implemented(_REFUSED_HEADER, header=name)
            raise S3Error(accepted.code, f"The value of the header {name} is not supported")


def _find(request: Request, address: Address, query: Query) -> AnyVerb:
    method, level = request.method, _level(address)
    subresource = _subresource(query) if query.names else ""
    has_source = method == "PUT" and _COPY_SOURCE in request.headers
    verb = ROUTES.get(Place(method, level, subresource, has_source))
    if verb is not None:
        return verb
    if subresource:
        raise not_implemented(
            f"{method} of the subresource {subresource} is not implemented", parameter=subresource
        )
    if level is not Level.SERVICE and method == "POST":
        raise not_implemented("Uploading an object with POST is not implemented")
    if has_source:
        raise not_implemented(
            "x-amz-copy-source is supported only in CopyObject and UploadPartCopy",
            header=_COPY_SOURCE,
        )
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


def _check_parameters(verb: AnyVerb, query: Query) -> None:
    """Raises `S3Error` if the query of a write has a parameter that the verb does not declare.

    Parameters in `HARMLESS` and those that start with `x-amz-` are accepted.
    """
    for name in query.names - verb.parameters - HARMLESS:
        if name == verb.place.subresource:
            continue
        if name == "versionId":
            raise invalid_argument(
                "This operation does not accept a version-id.",
                name=name,
                value=query.text(name),
            )
        raise not_implemented("A query parameter you provided is not implemented", parameter=name)


def _bad_method(method: str) -> S3Error:
    if method == "OPTIONS":
        return S3Error("AccessForbidden", "CORSResponse: CORS is not enabled for this bucket.")
    return _not_allowed()


def _not_allowed() -> S3Error:
    return S3Error("MethodNotAllowed", "The specified method is not allowed against this resource.")
