"""ListObjects and ListObjectsV2: `GET /bucket`, with or without `list-type`.

Building a page may take milliseconds, so it is done in a worker thread, as for all listings.
"""

from __future__ import annotations

from collections.abc import Awaitable
from dataclasses import dataclass
from typing import Final

from lakebed.http.request import Request
from lakebed.http.response import Response
from lakebed.s3 import tokens
from lakebed.s3.address import Address
from lakebed.s3.auth.identity import Identity
from lakebed.s3.errors import XML, invalid_argument
from lakebed.s3.listing import (
    PAGE_PARAMETERS,
    STORAGE,
    KeyText,
    Listing,
    common_prefixes,
    key_text_of,
    page_counts,
    page_head,
)
from lakebed.s3.query import Query
from lakebed.s3.service import Service
from lakebed.s3.verb import Level, Operation, Place, Verb
from lakebed.s3.xml_text import OWNER, document, element, time_text
from lakebed.seglake.meta.rows import VersionRow
from lakebed.seglake.model import Page


@dataclass(frozen=True, kw_only=True, slots=True)
class ListObjects(Listing):
    marker: str = ""

    @classmethod
    def read(cls, address: Address, query: Query, /) -> Operation:
        return cls(
            bucket=address.bucket,
            prefix=query.text("prefix"),
            delimiter=query.text("delimiter"),
            max_keys=query.count("max-keys"),
            is_url_encoded=query.is_url_encoded(),
            marker=query.text("marker"),
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class ListObjectsV2(Listing):
    continuation_token: str | None = None  # as the client sent it, not yet decoded
    start_after: str = ""
    fetches_owner: bool = False

    @classmethod
    def read(cls, address: Address, query: Query, /) -> Operation:
        """Builds a ListObjectsV2 if `list-type` is 2, or a ListObjects if it is 1 or empty.

        Raises the S3 error `InvalidArgument` if it has another value.
        """
        list_type = query.text("list-type")
        if list_type in ("", "1"):
            return ListObjects.read(address, query)
        if list_type != "2":
            raise invalid_argument(
                "Invalid List Type specified in Request", name="list-type", value=list_type
            )
        return cls(
            bucket=address.bucket,
            prefix=query.text("prefix"),
            delimiter=query.text("delimiter"),
            max_keys=query.count("max-keys"),
            is_url_encoded=query.is_url_encoded(),
            continuation_token=query.filled("continuation-token"),
            start_after=query.text("start-after"),
            fetches_owner=query.is_true("fetch-owner"),
        )


async def list_objects(
    service: Service, operation: ListObjects, _request: Request, _identity: Identity
) -> Response:
    def work() -> bytes:
        page = service.lake.objects.list(
            operation.bucket,
            prefix=operation.prefix,
            delimiter=operation.delimiter,
            after=operation.marker,
            max_keys=operation.max_keys,
        )
        return _document(operation, page)

    return Response(200, [XML], await service.run(work))


async def list_objects_v2(
    service: Service, operation: ListObjectsV2, _request: Request, _identity: Identity
) -> Response:
    """Lists the objects after the marker in the continuation token.

    Without a token, lists the objects after `start-after`.
    """
    token, scope = operation.continuation_token, f"objects of {operation.bucket}"
    after = operation.start_after if token is None else tokens.marker_of(token, scope=scope)

    def work() -> bytes:
        page = service.lake.objects.list(
            operation.bucket,
            prefix=operation.prefix,
            delimiter=operation.delimiter,
            after=after,
            max_keys=operation.max_keys,
        )
        marker = page.next_marker
        next_token = None if marker is None else tokens.token_of(marker, scope=scope)
        return _document_v2(operation, page, next_token=next_token)

    return Response(200, [XML], await service.run(work))


def list_objects_of_type(
    service: Service, operation: ListObjects | ListObjectsV2, request: Request, identity: Identity
) -> Awaitable[Response]:
    """Handles a request with `list-type`, as ListObjects or ListObjectsV2."""
    if isinstance(operation, ListObjects):
        return list_objects(service, operation, request, identity)
    return list_objects_v2(service, operation, request, identity)


def _document(operation: ListObjects, page: Page[VersionRow]) -> bytes:
    text = key_text_of(operation)
    parts = page_head(operation, text)
    parts.append(f"<Marker>{text(operation.marker)}</Marker>")
    if page.next_marker is not None:
        parts.append(f"<NextMarker>{text(page.next_marker)}</NextMarker>")
    parts += page_counts(operation, "MaxKeys", is_truncated=page.is_truncated)
    parts += [_contents(row, text, owner=OWNER) for row in page.items]
    parts += common_prefixes(page.prefixes, text)
    return document("ListBucketResult", parts)


def _document_v2(
    operation: ListObjectsV2, page: Page[VersionRow], *, next_token: str | None
) -> bytes:
    text = key_text_of(operation)
    parts = page_head(operation, text)
    if operation.start_after:
        parts.append(f"<StartAfter>{text(operation.start_after)}</StartAfter>")
    if operation.continuation_token is not None:
        parts.append(element("ContinuationToken", operation.continuation_token))
    if next_token is not None:
        parts.append(element("NextContinuationToken", next_token))
    parts.append(f"<KeyCount>{len(page.items) + len(page.prefixes)}</KeyCount>")
    parts += page_counts(operation, "MaxKeys", is_truncated=page.is_truncated)
    owner = OWNER if operation.fetches_owner else ""
    parts += [_contents(row, text, owner=owner) for row in page.items]
    parts += common_prefixes(page.prefixes, text)
    return document("ListBucketResult", parts)


def _contents(row: VersionRow, text: KeyText, *, owner: str) -> str:
    return (
        f"<Contents><Key>{text(row.key)}</Key>"
        f"<LastModified>{time_text(row.modified_ms)}</LastModified>"
        f"<ETag>&quot;{row.etag}&quot;</ETag><Size>{row.size}</Size>{owner}{STORAGE}</Contents>"
    )


VERBS: Final = (
    Verb(
        operation=ListObjects,
        place=Place("GET", Level.BUCKET),
        handle=list_objects,
        action="s3:ListBucket",
        writes=False,
        parameters=PAGE_PARAMETERS | {"max-keys", "marker"},
    ),
    Verb(
        operation=ListObjectsV2,
        place=Place("GET", Level.BUCKET, "list-type"),
        handle=list_objects_of_type,
        action="s3:ListBucket",
        writes=False,
        parameters=PAGE_PARAMETERS
        | {"max-keys", "continuation-token", "start-after", "fetch-owner"},
    ),
)
