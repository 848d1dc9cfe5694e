"""PutObject: `PUT /bucket/key`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from lakebed.http.request import Request
from lakebed.http.response import Response
from lakebed.s3.auth.identity import Identity
from lakebed.s3.checksums import announced, checksum_headers
from lakebed.s3.conditions import write_condition
from lakebed.s3.object_headers import HeaderList, content_of, quoted, shown_version
from lakebed.s3.service import Service
from lakebed.s3.upload_body import UploadBody, can_trail
from lakebed.s3.verb import Level, OnObject, Place, Verb
from lakebed.seglake.model import ObjectInfo


@dataclass(frozen=True, kw_only=True, slots=True)
class PutObject(OnObject): ...


async def put_object(
    service: Service, operation: PutObject, request: Request, identity: Identity
) -> Response:
    headers = request.headers
    announcement = announced(
        headers,
        has_trailer=can_trail(identity),
        needs_md5=service.config.require_content_md5,
    )
    body = UploadBody(request, identity, trailer=announcement.trailer)
    objects, expected = service.lake.objects, announcement.expected
    bucket, key = operation.bucket, operation.key
    content = content_of(headers)
    condition = write_condition(headers)
    if body.is_here:
        data, trailing = body.taken()
        if trailing is not None:
            expected = expected._replace(checksums=(trailing,))
        change = objects.small_put(
            bucket,
            key,
            data,
            content=content,
            condition=condition,
            algorithm=announcement.algorithm,
            expected=expected,
        )
        info = await service.commit(change)
    else:
        put = objects.begin_put(
            bucket,
            key,
            content=content,
            condition=condition,
            algorithm=announcement.algorithm,
            expected=expected,
            size=body.length,
        )
        put.check()  # before the body is received
        info = await body.into(service, put)
    return Response(200, _stored_headers(service, info))


def _stored_headers(service: Service, info: ObjectInfo) -> HeaderList:
    headers = [("ETag", quoted(info.etag)), *checksum_headers(info.checksums)]
    version_id = shown_version(service, info)
    if version_id is not None:
        headers.append(("x-amz-version-id", version_id))
    return headers


VERBS: Final = (
    Verb(
        operation=PutObject,
        place=Place("PUT", Level.OBJECT),
        handle=put_object,
        action="s3:PutObject",
        writes=True,
    ),
)
