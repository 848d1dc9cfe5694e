"""CopyObject and UploadPartCopy: from one object to another, inside the store.

A copy of an object shares its chunks and costs nothing, so its size is not limited to the 5 GiB
that AWS has for it. A copied part is read and written.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from lakebed.http.request import Request
from lakebed.http.response import Response
from lakebed.s3.addressing import decoded
from lakebed.s3.auth.identity import Identity
from lakebed.s3.checksums import chosen_algorithm
from lakebed.s3.conditions import COPY_SOURCE, read_condition, write_condition
from lakebed.s3.errors import S3Error, invalid_argument
from lakebed.s3.fields import HeaderList, content_of, told_version
from lakebed.s3.operations import CopyObject, UploadPartCopy
from lakebed.s3.patience import answer_patiently
from lakebed.s3.ranges import copied_range
from lakebed.s3.service import Service
from lakebed.s3.xml_documents import copied_object, copied_part
from lakebed.seglake.errors import MethodNotAllowed
from lakebed.seglake.model import Content, ObjectInfo
from lakebed.seglake.upload_rows import PartInfo

_SOURCE: Final = "x-amz-copy-source"
_VERSION: Final = "?versionId="
_DIRECTIVES: Final = ("COPY", "REPLACE")


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
    info = _look_at(service, source)
    told = told_version(service, info)  # and this is what is copied, whatever comes meanwhile
    steps = service.lake.objects.copying(
        source.bucket,
        source.key,
        operation.bucket,
        operation.key,
        source_version_id=told or source.version_id,
        source_condition=source_condition,
        content=content,
        condition=condition,
        algorithm=algorithm,
    )

    async def work() -> ObjectInfo:
        return await service.commit(await service.prepared(steps))

    def answer(copied: ObjectInfo) -> tuple[HeaderList, bytes]:
        version_id = told_version(service, copied)
        found = [] if version_id is None else [("x-amz-version-id", version_id)]
        return _with_source(found, told), copied_object(copied)

    return await answer_patiently(request, work(), answer)


async def upload_part_copy(
    service: Service, operation: UploadPartCopy, request: Request, _identity: Identity
) -> Response:
    headers = request.headers
    source = source_of(headers)
    info = _look_at(service, source)
    told = told_version(service, info)  # and this is what is copied, whatever comes meanwhile
    steps = service.lake.uploads.part_copying(
        source.bucket,
        source.key,
        operation.bucket,
        operation.key,
        operation.upload_id,
        operation.part_number,
        source_version_id=told or source.version_id,
        source_condition=read_condition(headers, COPY_SOURCE),
        byte_range=copied_range(headers, info.size),
    )

    async def work() -> PartInfo:
        change = await service.prepared(steps)
        return await service.done(await service.handed_over(change))

    return await answer_patiently(
        request, work(), lambda part: (_with_source([], told), copied_part(part))
    )


def source_of(headers: Mapping[str, str]) -> Source:
    """What `x-amz-copy-source` names: percent-decoded once, with or without a leading slash."""
    value = headers.get(_SOURCE, "")
    path, mark, version = value.rpartition(_VERSION)
    if not mark:
        path, version = value, ""
    try:
        place = decoded(path.removeprefix("/").encode("latin-1"))
        version_id = decoded(version.encode("latin-1")) if mark else None
    except (S3Error, UnicodeEncodeError):
        raise _bad_source("Copy Source must be the URL-encoded name of an object", value) from None
    bucket, _, key = place.removeprefix("/").partition("/")
    if not bucket or not key:
        raise _bad_source(
            "Copy Source must mention the source bucket and key: sourcebucket/sourcekey", value
        )
    if version_id == "":
        raise _bad_source("Version id cannot be the empty string", value)
    return Source(bucket, key, version_id)


def _look_at(service: Service, source: Source) -> ObjectInfo:
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
        raise invalid_argument(f"Unknown {kind}.", name=name, value=value)
    return value


def _check_change(operation: CopyObject, source: Source) -> None:
    """A copy onto itself has to be for something; of an older version it is."""
    if source == (operation.bucket, operation.key, None):
        raise S3Error(
            "InvalidRequest",
            "This copy request is illegal because it is trying to copy an object to itself "
            "without changing the object's metadata, storage class, website redirect location "
            "or encryption attributes.",
        )


def _bad_source(message: str, value: str) -> S3Error:
    return invalid_argument(message, name=_SOURCE, value=value)
