"""ListMultipartUploads: `GET /bucket?uploads`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from lakebed.http.request import Request
from lakebed.http.response import Response
from lakebed.s3.address import Address
from lakebed.s3.auth.identity import Identity
from lakebed.s3.errors import XML
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
from lakebed.s3.xml_text import (
    INITIATOR,
    OWNER,
    checksum_type_element,
    document,
    element,
    time_text,
)
from lakebed.seglake.meta.rows import UploadRow
from lakebed.seglake.model import Page
from lakebed.seglake.upload_rows import upload_info


@dataclass(frozen=True, kw_only=True, slots=True)
class ListMultipartUploads(Listing):
    key_marker: str = ""
    upload_id_marker: str | None = None

    @classmethod
    def read(cls, address: Address, query: Query, /) -> Operation:
        return cls(
            bucket=address.bucket,
            prefix=query.text("prefix"),
            delimiter=query.text("delimiter"),
            max_keys=query.count("max-uploads"),
            is_url_encoded=query.is_url_encoded(),
            key_marker=query.text("key-marker"),
            upload_id_marker=query.text("upload-id-marker") or None,
        )


async def list_multipart_uploads(
    service: Service, operation: ListMultipartUploads, _request: Request, _identity: Identity
) -> Response:
    def work() -> bytes:
        page = service.lake.uploads.list(
            operation.bucket,
            prefix=operation.prefix,
            delimiter=operation.delimiter,
            key_marker=operation.key_marker,
            upload_id_marker=operation.upload_id_marker,
            max_uploads=operation.max_keys,
        )
        return _document(operation, page)

    return Response(200, [XML], await service.run(work))


def _document(operation: ListMultipartUploads, page: Page[UploadRow]) -> bytes:
    text = key_text_of(operation)
    parts = page_head(operation, text, bucket="Bucket")
    parts.append(f"<KeyMarker>{text(operation.key_marker)}</KeyMarker>")
    parts.append(element("UploadIdMarker", operation.upload_id_marker or ""))
    if page.next_marker is not None:
        parts.append(f"<NextKeyMarker>{text(page.next_marker)}</NextKeyMarker>")
    if page.next_id is not None:
        parts.append(element("NextUploadIdMarker", page.next_id))
    parts += page_counts(operation, "MaxUploads", is_truncated=page.is_truncated)
    parts += [_upload(row, text) for row in page.items]
    parts += common_prefixes(page.prefixes, text)
    return document("ListMultipartUploadsResult", parts)


def _upload(row: UploadRow, text: KeyText) -> str:
    upload = upload_info(row)
    checksum = ""
    if upload.algorithm is not None:
        checksum = element("ChecksumAlgorithm", upload.algorithm.value)
        checksum += checksum_type_element(is_composite=upload.is_composite)
    return (
        f"<Upload><Key>{text(row.key)}</Key>{element('UploadId', row.upload_id)}"
        f"{INITIATOR}{OWNER}{STORAGE}"
        f"<Initiated>{time_text(row.initiated_ms)}</Initiated>{checksum}</Upload>"
    )


VERBS: Final = (
    Verb(
        operation=ListMultipartUploads,
        place=Place("GET", Level.BUCKET, "uploads"),
        handle=list_multipart_uploads,
        action="s3:ListBucketMultipartUploads",
        writes=False,
        parameters=PAGE_PARAMETERS | {"max-uploads", "key-marker", "upload-id-marker"},
    ),
)
