"""ListBuckets: `GET /`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from lakebed.http.request import Request
from lakebed.http.response import Response
from lakebed.s3 import tokens
from lakebed.s3.address import Address
from lakebed.s3.auth.identity import Identity
from lakebed.s3.errors import XML
from lakebed.s3.query import Query
from lakebed.s3.service import Service
from lakebed.s3.verb import Level, Operation, Place, Verb
from lakebed.s3.xml_text import OWNER, document, element, time_text
from lakebed.seglake.model import BucketInfo

BUCKETS_MAX: Final = 10_000

_SCOPE: Final = "buckets"


@dataclass(frozen=True, kw_only=True, slots=True)
class ListBuckets(Operation):
    prefix: str = ""
    region: str = ""
    max_buckets: int | None = None
    continuation_token: str = ""

    @classmethod
    def read(cls, _address: Address, query: Query, /) -> Operation:
        return cls(
            prefix=query.text("prefix"),
            region=query.text("bucket-region"),
            max_buckets=query.number("max-buckets", minimum=1, maximum=BUCKETS_MAX),
            continuation_token=query.filled("continuation-token") or "",
        )


async def list_buckets(
    service: Service, operation: ListBuckets, _request: Request, _identity: Identity
) -> Response:
    """Lists the buckets with the requested prefix and region, in order of name.

    The page has at most `max-buckets` buckets if that parameter is given, otherwise all.
    """
    token = operation.continuation_token
    after = tokens.marker_of(token, scope=_SCOPE) if token else ""

    def work() -> bytes:
        is_elsewhere = operation.region not in ("", service.config.region)
        buckets = [] if is_elsewhere else service.lake.buckets.list()
        return _document(_page(buckets, operation, after=after, region=service.config.region))

    return Response(200, [XML], await service.run(work))


class _Page(NamedTuple):
    buckets: Sequence[BucketInfo]
    prefix: str
    region: str
    next_token: str | None


def _page(buckets: list[BucketInfo], operation: ListBuckets, *, after: str, region: str) -> _Page:
    matching = [
        bucket
        for bucket in buckets
        if bucket.name.startswith(operation.prefix) and bucket.name > after
    ]
    listed = matching[: operation.max_buckets]
    has_more = len(listed) < len(matching)
    next_token = tokens.token_of(listed[-1].name, scope=_SCOPE) if has_more else None
    return _Page(listed, operation.prefix, region, next_token)


def _document(page: _Page) -> bytes:
    region = element("BucketRegion", page.region)
    parts = [OWNER, "<Buckets>"]
    parts += [
        f"<Bucket>{element('Name', bucket.name)}"
        f"<CreationDate>{time_text(bucket.created_ms)}</CreationDate>{region}</Bucket>"
        for bucket in page.buckets
    ]
    parts.append("</Buckets>")
    if page.prefix:
        parts.append(element("Prefix", page.prefix))
    if page.next_token is not None:
        parts.append(element("ContinuationToken", page.next_token))
    return document("ListAllMyBucketsResult", parts)


VERBS: Final = (
    Verb(
        operation=ListBuckets,
        place=Place("GET", Level.SERVICE),
        handle=list_buckets,
        action="s3:ListAllMyBuckets",
        writes=False,
        parameters=frozenset({"prefix", "bucket-region", "max-buckets", "continuation-token"}),
    ),
)
