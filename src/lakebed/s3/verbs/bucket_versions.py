"""ListObjectVersions: `GET /bucket?versions`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from lakebed.http.request import Request
from lakebed.http.response import Response
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
from lakebed.s3.xml_text import OWNER, bool_text, document, element, time_text
from lakebed.seglake.listing import ListedVersion
from lakebed.seglake.model import NULL_VERSION, Page, State


@dataclass(frozen=True, kw_only=True, slots=True)
class ListObjectVersions(Listing):
    key_marker: str = ""
    version_id_marker: str | None = None

    @classmethod
    def read(cls, address: Address, query: Query, /) -> Operation:
        key_marker, id_marker = query.text("key-marker"), query.filled("version-id-marker")
        if id_marker is not None and not key_marker:
            raise invalid_argument(
                "A version-id marker cannot be specified without a key marker.",
                name="version-id-marker",
                value=id_marker,
            )
        return cls(
            bucket=address.bucket,
            prefix=query.text("prefix"),
            delimiter=query.text("delimiter"),
            max_keys=query.count("max-keys"),
            is_url_encoded=query.is_url_encoded(),
            key_marker=key_marker,
            version_id_marker=id_marker,
        )


async def list_object_versions(
    service: Service, operation: ListObjectVersions, _request: Request, _identity: Identity
) -> Response:
    def work() -> bytes:
        page = service.lake.objects.list_versions(
            operation.bucket,
            prefix=operation.prefix,
            delimiter=operation.delimiter,
            key_marker=operation.key_marker,
            version_id_marker=operation.version_id_marker,
            max_keys=operation.max_keys,
        )
        return _document(operation, page)

    return Response(200, [XML], await service.run(work))


def _document(operation: ListObjectVersions, page: Page[ListedVersion]) -> bytes:
    text = key_text_of(operation)
    parts = page_head(operation, text)
    parts.append(f"<KeyMarker>{text(operation.key_marker)}</KeyMarker>")
    parts.append(element("VersionIdMarker", operation.version_id_marker or ""))
    if page.next_marker is not None:
        parts.append(f"<NextKeyMarker>{text(page.next_marker)}</NextKeyMarker>")
    if page.next_id is not None:
        parts.append(element("NextVersionIdMarker", page.next_id))
    parts += page_counts(operation, "MaxKeys", is_truncated=page.is_truncated)
    parts += [_version(item, text) for item in page.items]
    parts += common_prefixes(page.prefixes, text)
    return document("ListVersionsResult", parts)


def _version(item: ListedVersion, text: KeyText) -> str:
    row, is_latest = item
    name, about = "DeleteMarker", ""
    if row.state is not State.DELETED:
        name = "Version"
        about = f"<ETag>&quot;{row.etag}&quot;</ETag><Size>{row.size}</Size>{STORAGE}"
    version_id = NULL_VERSION if row.is_null else row.version_id
    return (
        f"<{name}><Key>{text(row.key)}</Key><VersionId>{version_id}</VersionId>"
        f"<IsLatest>{bool_text(is_latest)}</IsLatest>"
        f"<LastModified>{time_text(row.modified_ms)}</LastModified>{about}{OWNER}</{name}>"
    )


VERBS: Final = (
    Verb(
        operation=ListObjectVersions,
        place=Place("GET", Level.BUCKET, "versions"),
        handle=list_object_versions,
        action="s3:ListBucketVersions",
        writes=False,
        parameters=PAGE_PARAMETERS | {"max-keys", "key-marker", "version-id-marker"},
    ),
)
