"""CopyObject and UploadPartCopy: a `PUT` with `x-amz-copy-source`.

CopyObject shares the chunks of its source, so the 5 GiB limit of AWS does not apply. UploadPartCopy
reads the source's bytes and writes them again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from lakebed.http.request import Request
from lakebed.http.response import Response
from lakebed.s3.address import decoded
from lakebed.s3.auth.identity import Identity
from lakebed.s3.checksums import chosen_algorithm
from lakebed.s3.conditions import COPY_SOURCE, read_condition, write_condition
from lakebed.s3.errors import S3Error, invalid_argument
from lakebed.s3.keepalive_response import respond_with_keepalive
from lakebed.s3.object_headers import HeaderList, content_of, shown_version
from lakebed.s3.ranges import copied_range
from lakebed.s3.service import Service
from lakebed.s3.verb import Level, OnObject, OnPart, Place, Verb
from lakebed.s3.xml_text import checksum_elements, document, etag_element, time_text
from lakebed.seglake.errors import MethodNotAllowed
from lakebed.seglake.model import Content, ObjectInfo
from lakebed.seglake.upload_rows import PartInfo

_SOURCE: Final = "x-amz-copy-source"
_VERSION: Final = "?versionId="
_DIRECTIVES: Final = ("COPY", "REPLACE")


@dataclass(frozen=True, kw_only=True, slots=True)
class CopyObject(OnObject):
    """A request to copy an object: a PUT of an object with `x-amz-copy-source`."""


@dataclass(frozen=True, kw_only=True, slots=True)
class UploadPartCopy(OnPart): ...


class Source(NamedTuple):
    bucket: str
    key: str
    version_id: str | None


async def copy_object(
    service: Service, operation: CopyObject, request: Request, _identity: Identity
) -> Response:
    headers = request.headers
    source = source_of(headers)
    is_replaced = _directive(headers, "x-amz-metadata-directive") == "REPLACE"
    _directive(headers, "x-amz-tagging-directive")
    algorithm = chosen_algorithm(headers)
    if not is_replaced and algorithm is None:
        _check_change(operation, source)
    content: Content | None = content_of(headers) if is_replaced else None
    condition = write_condition(headers)
    source_condition = read_condition(headers, COPY_SOURCE)
    info = _source_info(service, source)
    source_id = shown_version(service, info)  # copied even if a newer version is written meanwhile
    steps = service.lake.objects.copying(
        source.bucket,
        source.key,
        operation.bucket,
        operation.key,
        source_version_id=source_id or source.version_id,
        source_condition=source_condition,
        content=content,
        condition=condition,
        algorithm=algorithm,
    )

    async def work() -> ObjectInfo:
        return await service.commit(await service.prepared(steps))

    def answer(copied: ObjectInfo) -> tuple[HeaderList, bytes]:
        version_id = shown_version(service, copied)
        version_headers = [] if version_id is None else [("x-amz-version-id", version_id)]
        return _with_source(version_headers, source_id), object_document(copied)

    return await respond_with_keepalive(request, work(), answer, failures=service.failures)


async def upload_part_copy(
    service: Service, operation: UploadPartCopy, request: Request, _identity: Identity
) -> Response:
    headers = request.headers
    source = source_of(headers)
    info = _source_info(service, source)
    source_id = shown_version(service, info)  # copied even if a newer version is written meanwhile
    steps = service.lake.uploads.part_copying(
        source.bucket,
        source.key,
        operation.bucket,
        operation.key,
        operation.upload_id,
        operation.part_number,
        source_version_id=source_id or source.version_id,
        source_condition=read_condition(headers, COPY_SOURCE),
        byte_range=copied_range(headers, info.size),
    )

    async def work() -> PartInfo:
        change = await service.prepared(steps)
        return await service.done(await service.handed_over(change))

    return await respond_with_keepalive(
        request,
        work(),
        lambda part: (_with_source([], source_id), part_document(part)),
        failures=service.failures,
    )


def source_of(headers: Mapping[str, str]) -> Source:
    """Returns the object that `x-amz-copy-source` names.

    The header is percent-decoded once and may start with a slash. Raises the S3 error
    `InvalidArgument` if it is malformed.
    """
    value = headers.get(_SOURCE, "")
    path, mark, version = value.rpartition(_VERSION)
    if not mark:
        path, version = value, ""
    try:
        name = decoded(path.removeprefix("/").encode("latin-1"))
        version_id = decoded(version.encode("latin-1")) if mark else None
    except (S3Error, UnicodeEncodeError):
        raise _bad_source("Copy Source must be the URL-encoded name of an object", value) from None
    bucket, _, key = name.removeprefix("/").partition("/")
    if not bucket or not key:
        raise _bad_source(
            "Copy Source must mention the source bucket and key: sourcebucket/sourcekey", value
        )
    if version_id == "":
        raise _bad_source("The versionId of the copy source cannot be the empty string", value)
    return Source(bucket, key, version_id)


def _source_info(service: Service, source: Source) -> ObjectInfo:
    try:
        return service.lake.objects.head(source.bucket, source.key, version_id=source.version_id)
    except MethodNotAllowed as error:
        raise S3Error(
            "InvalidRequest",
            "The source of a copy request may not specifically refer to a delete marker by "
            "version id.",
        ) from error


def _with_source(headers: HeaderList, version_id: str | None) -> HeaderList:
    if version_id is None:
        return headers
    return [*headers, ("x-amz-copy-source-version-id", version_id)]


def _directive(headers: Mapping[str, str], name: str) -> str:
    value = headers.get(name, _DIRECTIVES[0])
    if value not in _DIRECTIVES:
        kind = name.removeprefix("x-amz-").replace("-", " ")
        raise invalid_argument(
            f"Unknown {kind}: it must be {' or '.join(_DIRECTIVES)}.", name=name, value=value
        )
    return value


def _check_change(operation: CopyObject, source: Source) -> None:
    """Raises `S3Error` if the source of a copy is the target itself, without a version id.

    A source with a version id is allowed, because copying an older version changes the object.
    """
    if source == (operation.bucket, operation.key, None):
        raise S3Error(
            "InvalidRequest",
            "This copy request is illegal because it is trying to copy an object to itself "
            "without changing the object's metadata, storage class, website redirect location "
            "or encryption attributes.",
        )


def _bad_source(message: str, value: str) -> S3Error:
    return invalid_argument(message, name=_SOURCE, value=value)


def object_document(info: ObjectInfo) -> bytes:
    elements = checksum_elements(info.checksums)
    return _document("CopyObjectResult", info.modified_ms, info.etag, elements)


def part_document(part: PartInfo) -> bytes:
    elements = checksum_elements(part.checksums, has_type=False)
    return _document("CopyPartResult", part.modified_ms, part.etag, elements)


def _document(name: str, modified_ms: int, etag: str, checksums: list[str]) -> bytes:
    modified = f"<LastModified>{time_text(modified_ms)}</LastModified>"
    return document(name, [modified, etag_element(etag), *checksums])


_CONDITIONS: Final = (
    "if-match",
    "if-modified-since",
    "if-none-match",
    "if-unmodified-since",
)
_HEADERS: Final = frozenset({_SOURCE, *(COPY_SOURCE + name for name in _CONDITIONS)})

VERBS: Final = (
    Verb(
        operation=CopyObject,
        place=Place("PUT", Level.OBJECT, has_source=True),
        handle=copy_object,
        action="s3:PutObject",
        writes=True,
        headers=_HEADERS | {"x-amz-metadata-directive"},
    ),
    Verb(
        operation=UploadPartCopy,
        place=Place("PUT", Level.OBJECT, "uploadId", has_source=True),
        handle=upload_part_copy,
        action="s3:PutObject",
        writes=True,
        parameters=frozenset({"partNumber"}),
        headers=_HEADERS | {"x-amz-copy-source-range"},
    ),
)
