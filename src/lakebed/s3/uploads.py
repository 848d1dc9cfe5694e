"""Multipart uploads: begun, filled, listed, completed, aborted."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final

from lakebed.base.errors import NotFound
from lakebed.http.request import Request
from lakebed.http.response import Response
from lakebed.s3 import checksums, xml_documents
from lakebed.s3.auth.identity import Identity
from lakebed.s3.conditions import write_condition
from lakebed.s3.errors import XML, S3Error, invalid_argument
from lakebed.s3.fields import HeaderList, content_of, quoted, told_version
from lakebed.s3.incoming import Incoming, can_trail
from lakebed.s3.operations import (
    AbortMultipartUpload,
    CompleteMultipartUpload,
    CreateMultipartUpload,
    ListParts,
    UploadPart,
)
from lakebed.s3.patience import answer_patiently
from lakebed.s3.service import Service
from lakebed.s3.xml_parsing import COMPLETE_BYTES_MAX, parse_completion
from lakebed.seglake.change import Change
from lakebed.seglake.digests import multipart_etag
from lakebed.seglake.errors import BadSize, NoSuchUpload, PartTooSmall
from lakebed.seglake.model import ObjectInfo
from lakebed.seglake.multipart import LISTED_MAX, NamedPart

_OBJECT_SIZE: Final = "x-amz-mp-object-size"
_DIGITS_MAX: Final = 18
_STARTED_DIGITS: Final = 12  # of an upload's id: when it began, in ms


async def create_multipart_upload(
    service: Service, operation: CreateMultipartUpload, request: Request, _identity: Identity
) -> Response:
    headers = request.headers
    algorithm = checksums.chosen_algorithm(headers)
    is_composite = checksums.chosen_kind(headers, algorithm)
    content = content_of(headers)
    change = service.lake.uploads.creation(
        operation.bucket,
        operation.key,
        content=content,
        algorithm=algorithm,
        is_composite=is_composite,
    )
    upload = await service.commit(change)
    told = [XML]
    if upload.algorithm is not None:
        told.append(("x-amz-checksum-algorithm", upload.algorithm.value))
        kind = checksums.type_name(is_composite=upload.is_composite)
        told.append(("x-amz-checksum-type", kind))
    return Response(200, told, xml_documents.upload_begun(upload))


async def upload_part(
    service: Service, operation: UploadPart, request: Request, identity: Identity
) -> Response:
    said = checksums.announced(
        request.headers,
        has_trailer=can_trail(identity),
        needs_md5=service.config.require_content_md5,
    )
    body = Incoming(request, identity, trailer=said.trailer)
    put = service.lake.uploads.begin_part(
        operation.bucket,
        operation.key,
        operation.upload_id,
        operation.part_number,
        algorithm=said.algorithm,
        expected=said.expected,
        size=body.length,
    )
    part = await body.into(service, put)
    told = checksums.checksum_headers(part.checksums, has_type=False)
    return Response(200, [("ETag", quoted(part.etag)), *told])


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
    document = xml_documents.list_parts(
        page,
        marker=operation.part_number_marker,
        max_parts=max_parts,
        is_url_encoded=operation.is_url_encoded,
    )
    return Response(200, [XML], document)


async def complete_multipart_upload(
    service: Service, operation: CompleteMultipartUpload, request: Request, identity: Identity
) -> Response:
    headers = request.headers
    condition = write_condition(headers)
    checksum = checksums.whole_checksum(headers)
    size = _announced_size(headers)
    document = await _document_of(request, identity)
    parts = await service.run(partial(parse_completion, document))
    prepare = partial(
        service.lake.uploads.completion,
        operation.bucket,
        operation.key,
        operation.upload_id,
        parts,
        condition=condition,
        checksum=checksum,
        size=size,
    )
    location = _location(request)

    def answer(info: ObjectInfo) -> tuple[HeaderList, bytes]:
        version_id = told_version(service, info)
        told = [] if version_id is None else [("x-amz-version-id", version_id)]
        return told, xml_documents.upload_completed(info, location=location)

    completing = _complete(service, operation, parts, prepare)
    return await answer_patiently(request, completing, answer)


async def abort_multipart_upload(
    service: Service, operation: AbortMultipartUpload, _request: Request, _identity: Identity
) -> Response:
    uploads = service.lake.uploads
    await service.commit(uploads.abortion(operation.bucket, operation.key, operation.upload_id))
    return Response(204)


async def _complete(
    service: Service,
    operation: CompleteMultipartUpload,
    parts: Sequence[NamedPart],
    prepare: Callable[[], Change[ObjectInfo]],
) -> ObjectInfo:
    try:
        return await service.commit(await service.run(prepare))
    except NoSuchUpload:
        found = await service.run(partial(_completed_before, service, operation, parts))
        if found is None:
            raise
        return found
    except PartTooSmall as error:
        raise S3Error(
            "EntityTooSmall",
            "Your proposed upload is smaller than the minimum allowed size",
            details=(
                ("ProposedSize", str(error.size)),
                ("MinSizeAllowed", str(error.minimum)),
                ("PartNumber", str(error.number)),
            ),
        ) from error
    except BadSize as error:
        raise S3Error(
            "InvalidRequest", f"The value of {_OBJECT_SIZE} is another than what was computed."
        ) from error


def _completed_before(
    service: Service, operation: CompleteMultipartUpload, parts: Sequence[NamedPart]
) -> ObjectInfo | None:
    """What it became, if this upload was completed and the answer to that was lost.

    The store forgets an upload with its end. But if the object is newer than the upload and is
    made of the very parts that are named, then it is as the client wants it.
    """
    try:
        started_ms = int(operation.upload_id[:_STARTED_DIGITS], 16)
        etag = multipart_etag([part.etag for part in parts])
        info = service.lake.objects.head(operation.bucket, operation.key)
    except (ValueError, NotFound):
        return None
    is_it = info.etag == etag and info.modified_ms >= started_ms
    return info if is_it and len(info.part_sizes) == len(parts) else None


async def _document_of(request: Request, identity: Identity) -> bytes:
    """The checksums in the headers are of the object, not of this; its MD5 may be."""
    body = Incoming(request, identity)
    if body.length > COMPLETE_BYTES_MAX:
        raise S3Error("MaxMessageLengthExceeded", "Your request was too big.")
    data = await body.whole()
    md5 = checksums.content_md5(request.headers)
    if md5 is not None and md5 != hashlib.md5(data, usedforsecurity=False).digest():
        raise S3Error("BadDigest", "The Content-MD5 you specified did not match what we received.")
    return data


def _announced_size(headers: Mapping[str, str]) -> int | None:
    value = headers.get(_OBJECT_SIZE)
    if value is None:
        return None
    if not (value.isascii() and value.isdigit() and len(value) <= _DIGITS_MAX):
        raise invalid_argument("A size must be a whole number", name=_OBJECT_SIZE, value=value)
    return int(value)


def _location(request: Request) -> str:
    scheme = "https" if request.is_secure else "http"
    host = request.headers.get("host", "")
    return f"{scheme}://{host}{request.raw_path.decode('latin-1')}"
