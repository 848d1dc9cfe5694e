"""CreateMultipartUpload, CompleteMultipartUpload and AbortMultipartUpload.

`POST /bucket/key?uploads`, and `POST` and `DELETE` of `/bucket/key?uploadId`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from lakebed.base.errors import NotFound
from lakebed.base.units import MIB
from lakebed.http.request import Request
from lakebed.http.response import Response
from lakebed.s3 import checksums
from lakebed.s3.auth.identity import Identity
from lakebed.s3.conditions import write_condition
from lakebed.s3.errors import XML, S3Error, invalid_argument
from lakebed.s3.keepalive_response import respond_with_keepalive
from lakebed.s3.object_headers import HeaderList, content_of, shown_version
from lakebed.s3.service import Service
from lakebed.s3.upload_body import UploadBody
from lakebed.s3.verb import Level, OnObject, OnUpload, Place, Verb
from lakebed.s3.xml_parser import Node, malformed, parse
from lakebed.s3.xml_text import checksum_elements, document, element, etag_element
from lakebed.seglake.change import Change
from lakebed.seglake.digests import multipart_etag
from lakebed.seglake.errors import BadSize, NoSuchUpload, PartTooSmall
from lakebed.seglake.model import Algorithm, Checksum, ObjectInfo
from lakebed.seglake.multipart import PART_NUMBER_MAX, NamedPart
from lakebed.seglake.upload_rows import UploadInfo

COMPLETE_BYTES_MAX: Final = 8 * MIB

_OBJECT_SIZE: Final = "x-amz-mp-object-size"
_DIGITS_MAX: Final = 18
_STARTED_DIGITS: Final = 12  # digits of an upload id that encode its start time in ms
_CHECKSUMS: Final = {f"Checksum{algorithm.value}": algorithm for algorithm in Algorithm}


@dataclass(frozen=True, kw_only=True, slots=True)
class CreateMultipartUpload(OnObject): ...


@dataclass(frozen=True, kw_only=True, slots=True)
class CompleteMultipartUpload(OnUpload): ...


@dataclass(frozen=True, kw_only=True, slots=True)
class AbortMultipartUpload(OnUpload): ...


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
    response_headers = [XML]
    if upload.algorithm is not None:
        response_headers.append(("x-amz-checksum-algorithm", upload.algorithm.value))
        kind = checksums.type_name(is_composite=upload.is_composite)
        response_headers.append(("x-amz-checksum-type", kind))
    return Response(200, response_headers, upload_document(upload))


async def complete_multipart_upload(
    service: Service, operation: CompleteMultipartUpload, request: Request, identity: Identity
) -> Response:
    headers = request.headers
    condition = write_condition(headers)
    checksum = checksums.whole_checksum(headers)
    size = _announced_size(headers)
    data = await _body_of(request, identity)
    parts = await service.run(partial(parse_completion, data))
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
        version_id = shown_version(service, info)
        response_headers = [] if version_id is None else [("x-amz-version-id", version_id)]
        return response_headers, object_document(info, location=location)

    completing = _complete(service, operation, parts, prepare)
    return await respond_with_keepalive(request, completing, answer, failures=service.failures)


async def abort_multipart_upload(
    service: Service, operation: AbortMultipartUpload, _request: Request, _identity: Identity
) -> Response:
    uploads = service.lake.uploads
    await service.commit(uploads.cancellation(operation.bucket, operation.key, operation.upload_id))
    return Response(204)


def parse_completion(data: bytes) -> list[NamedPart]:
    """Returns the parts that the body of a CompleteMultipartUpload request lists, in that order.

    Raises `S3Error` if the body is malformed or does not list 1 to 10,000 parts.
    """
    root = parse(data, root="CompleteMultipartUpload", bytes_max=COMPLETE_BYTES_MAX)
    root.only("Part")
    if not 1 <= len(root.children) <= PART_NUMBER_MAX:
        raise malformed(
            f"the request lists {len(root.children)} parts, but must list 1 to {PART_NUMBER_MAX}"
        )
    return [_part(node) for node in root.children]


def _part(node: Node) -> NamedPart:
    node.only("PartNumber", "ETag", *_CHECKSUMS)
    number, etag = (node.optional("PartNumber") or "").strip(), node.optional("ETag")
    if not (number.isascii() and number.isdigit() and len(number) <= 5) or etag is None:
        raise malformed("each part needs a numeric PartNumber and an ETag")
    sent_checksums = [
        Checksum(algorithm, value.strip(), is_composite=False)
        for name, algorithm in _CHECKSUMS.items()
        if (value := node.optional(name))
    ]
    if len(sent_checksums) > 1:
        raise malformed("each part must have at most one checksum")
    return NamedPart(
        int(number), etag.strip().strip('"'), sent_checksums[0] if sent_checksums else None
    )


def upload_document(upload: UploadInfo) -> bytes:
    return document(
        "InitiateMultipartUploadResult",
        [
            element("Bucket", upload.bucket),
            element("Key", upload.key),
            element("UploadId", upload.upload_id),
        ],
    )


def object_document(info: ObjectInfo, *, location: str) -> bytes:
    """Returns the XML document that describes the completed object; `location` is its URL."""
    return document(
        "CompleteMultipartUploadResult",
        [
            element("Location", location),
            element("Bucket", info.bucket),
            element("Key", info.key),
            etag_element(info.etag),
            *checksum_elements(info.checksums),
        ],
    )


async def _complete(
    service: Service,
    operation: CompleteMultipartUpload,
    parts: Sequence[NamedPart],
    prepare: Callable[[], Change[ObjectInfo]],
) -> ObjectInfo:
    try:
        return await service.commit(await service.run(prepare))
    except NoSuchUpload:
        completed = await service.run(partial(_completed_before, service, operation, parts))
        if completed is None:
            raise
        return completed
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
            "InvalidRequest", f"The value of {_OBJECT_SIZE} does not match the size of the object."
        ) from error


def _completed_before(
    service: Service, operation: CompleteMultipartUpload, parts: Sequence[NamedPart]
) -> ObjectInfo | None:
    """Returns the object if an earlier request already completed this upload, otherwise None.

    A client repeats the request if the response was lost. The store does not remember completed
    uploads, so the current object counts as completed from this upload if it was stored after the
    start of the upload and consists of the listed parts.
    """
    try:
        started_ms = int(operation.upload_id[:_STARTED_DIGITS], 16)
        etag = multipart_etag([part.etag for part in parts])
        info = service.lake.objects.head(operation.bucket, operation.key)
    except (ValueError, NotFound):
        return None
    is_match = info.etag == etag and info.modified_ms >= started_ms
    return info if is_match and len(info.part_sizes) == len(parts) else None


async def _body_of(request: Request, identity: Identity) -> bytes:
    """Returns the body of a request, checked against `Content-MD5` if the request has that header.

    The checksum headers are not checked here, because they describe the completed object. Raises
    `S3Error` if the body is larger than `COMPLETE_BYTES_MAX`.
    """
    body = UploadBody(request, identity)
    if body.length > COMPLETE_BYTES_MAX:
        raise S3Error(
            "MaxMessageLengthExceeded",
            f"Your request was too big: it has {body.length} bytes, but the maximum is "
            f"{COMPLETE_BYTES_MAX}.",
        )
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
        raise invalid_argument(
            "The size of an object must be a whole number", name=_OBJECT_SIZE, value=value
        )
    return int(value)


def _location(request: Request) -> str:
    scheme = "https" if request.is_secure else "http"
    host = request.headers.get("host", "")
    return f"{scheme}://{host}{request.raw_path.decode('latin-1')}"


VERBS: Final = (
    Verb(
        operation=CreateMultipartUpload,
        place=Place("POST", Level.OBJECT, "uploads"),
        handle=create_multipart_upload,
        action="s3:PutObject",
        writes=True,
    ),
    Verb(
        operation=CompleteMultipartUpload,
        place=Place("POST", Level.OBJECT, "uploadId"),
        handle=complete_multipart_upload,
        action="s3:PutObject",
        writes=True,
        headers=frozenset({_OBJECT_SIZE}),
    ),
    Verb(
        operation=AbortMultipartUpload,
        place=Place("DELETE", Level.OBJECT, "uploadId"),
        handle=abort_multipart_upload,
        action="s3:AbortMultipartUpload",
        writes=True,
    ),
)
