"""What is in a bucket: its objects, their versions, and the uploads that are under way.

A page may take milliseconds, so it is made in another thread: looked up, and written down there.
"""

from __future__ import annotations

from lakebed.http.request import Request
from lakebed.http.response import Response
from lakebed.s3 import tokens, xml_listings
from lakebed.s3.auth.identity import Identity
from lakebed.s3.errors import XML
from lakebed.s3.operations import (
    ListMultipartUploads,
    ListObjects,
    ListObjectsV2,
    ListObjectVersions,
)
from lakebed.s3.service import Service


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
        return xml_listings.list_objects(operation, page)

    return Response(200, [XML], await service.run(work))


async def list_objects_v2(
    service: Service, operation: ListObjectsV2, _request: Request, _identity: Identity
) -> Response:
    """A token goes before `start-after`: it is from a page behind that."""
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
        return xml_listings.list_objects_v2(operation, page, next_token=next_token)

    return Response(200, [XML], await service.run(work))


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
        return xml_listings.list_versions(operation, page)

    return Response(200, [XML], await service.run(work))


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
        return xml_listings.list_uploads(operation, page)

    return Response(200, [XML], await service.run(work))
