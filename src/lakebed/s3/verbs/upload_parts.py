"""UploadPart and ListParts: `PUT` and `GET` of `/bucket/key?uploadId`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from lakebed.http.request import Request
from lakebed.http.response import Response
from lakebed.s3 import checksums
from lakebed.s3.address import Address
from lakebed.s3.auth.identity import Identity
from lakebed.s3.errors import XML
from lakebed.s3.object_headers import quoted
from lakebed.s3.query import Query
from lakebed.s3.service import Service
from lakebed.s3.upload_body import UploadBody, can_trail
from lakebed.s3.verb import Level, OnPart, OnUpload, Operation, Place, Verb
from lakebed.s3.xml_text import (
    INITIATOR,
    OWNER,
    STORAGE_CLASS,
    bool_text,
    checksum_elements,
    checksum_type_element,
    document,
    element,
    etag_element,
    key_text,
    time_text,
)
from lakebed.seglake.multipart import LISTED_MAX, PartPage
from lakebed.seglake.upload_rows import PartInfo


@dataclass(frozen=True, kw_only=True, slots=True)
class UploadPart(OnPart): ...


@dataclass(frozen=True, kw_only=True, slots=True)
class ListParts(OnUpload):
    max_parts: int = LISTED_MAX
    part_number_marker: int = 0
    is_url_encoded: bool = False

    @classmethod
    def read(cls, address: Address, query: Query, /) -> Operation:
        return cls(
            bucket=address.bucket,
            key=address.key,
            upload_id=query.upload_id(),
            max_parts=query.count("max-parts"),
            part_number_marker=query.number("part-number-marker") or 0,
            is_url_encoded=query.is_url_encoded(),
        )


async def upload_part(
    service: Service, operation: UploadPart, request: Request, identity: Identity
) -> Response:
    announcement = checksums.announced(
        request.headers,
        has_trailer=can_trail(identity),
        needs_md5=service.config.require_content_md5,
    )
    body = UploadBody(request, identity, trailer=announcement.trailer)
    put = service.lake.uploads.begin_part(
        operation.bucket,
        operation.key,
        operation.upload_id,
        operation.part_number,
        algorithm=announcement.algorithm,
        expected=announcement.expected,
        size=body.length,
    )
    part = await body.into(service, put)
    headers = checksums.checksum_headers(part.checksums, has_type=False)
    return Response(200, [("ETag", quoted(part.etag)), *headers])


async def list_parts(
    service: Service, operation: ListParts, _request: Request, _identity: Identity
) -> Response:
    max_parts = min(operation.max_parts, LISTED_MAX)
    page = await service.run(
        lambda: service.lake.uploads.parts(
            operation.bucket,
            operation.key,
            operation.upload_id,
            after=operation.part_number_marker,
            max_parts=max_parts,
        )
    )
    body = parts_document(
        page,
        marker=operation.part_number_marker,
        max_parts=max_parts,
        is_url_encoded=operation.is_url_encoded,
    )
    return Response(200, [XML], body)


def parts_document(
    page: PartPage, *, marker: int, max_parts: int, is_url_encoded: bool = False
) -> bytes:
    upload = page.upload
    parts = [
        element("Bucket", upload.bucket),
        f"<Key>{key_text(upload.key, is_url_encoded=is_url_encoded)}</Key>",
        element("UploadId", upload.upload_id),
        INITIATOR,
        OWNER,
        element("StorageClass", STORAGE_CLASS),
        f"<PartNumberMarker>{marker}</PartNumberMarker>",
    ]
    if page.next_number is not None:
        parts.append(f"<NextPartNumberMarker>{page.next_number}</NextPartNumberMarker>")
    parts.append(f"<MaxParts>{max_parts}</MaxParts>")
    parts.append(f"<IsTruncated>{bool_text(page.next_number is not None)}</IsTruncated>")
    if upload.algorithm is not None:
        parts.append(element("ChecksumAlgorithm", upload.algorithm.value))
        parts.append(checksum_type_element(is_composite=upload.is_composite))
    if is_url_encoded:
        parts.append("<EncodingType>url</EncodingType>")
    parts += map(_part, page.parts)
    return document("ListPartsResult", parts)


def _part(part: PartInfo) -> str:
    parts = [
        f"<Part><PartNumber>{part.number}</PartNumber>",
        f"<LastModified>{time_text(part.modified_ms)}</LastModified>",
        etag_element(part.etag),
        f"<Size>{part.size}</Size>",
        *checksum_elements(part.checksums, has_type=False),
        "</Part>",
    ]
    return "".join(parts)


VERBS: Final = (
    Verb(
        operation=UploadPart,
        place=Place("PUT", Level.OBJECT, "uploadId"),
        handle=upload_part,
        action="s3:PutObject",
        writes=True,
        parameters=frozenset({"partNumber"}),
    ),
    Verb(
        operation=ListParts,
        place=Place("GET", Level.OBJECT, "uploadId"),
        handle=list_parts,
        action="s3:ListMultipartUploadParts",
        writes=False,
        parameters=frozenset({"max-parts", "part-number-marker", "encoding-type"}),
    ),
)
