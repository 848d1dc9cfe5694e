"""DeleteObject: `DELETE /bucket/key`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from lakebed.http.request import Request
from lakebed.http.response import Response
from lakebed.s3.auth.identity import Identity
from lakebed.s3.conditions import delete_condition
from lakebed.s3.service import Service
from lakebed.s3.verb import Level, OnVersion, Place, Verb
from lakebed.seglake.model import ObjectToDelete


@dataclass(frozen=True, kw_only=True, slots=True)
class DeleteObject(OnVersion): ...


async def delete_object(
    service: Service, operation: DeleteObject, request: Request, _identity: Identity
) -> Response:
    """Deletes the object or version; succeeds if it does not exist, unless `If-Match` is given."""
    target = ObjectToDelete(operation.key, operation.version_id, delete_condition(request.headers))
    deleted = await service.commit(service.lake.objects.deletion(operation.bucket, target))
    headers = []
    if deleted.is_marker:
        headers.append(("x-amz-delete-marker", "true"))
    if deleted.version_id is not None:
        headers.append(("x-amz-version-id", deleted.version_id))
    return Response(204, headers)


VERBS: Final = (
    Verb(
        operation=DeleteObject,
        place=Place("DELETE", Level.OBJECT),
        handle=delete_object,
        action="s3:DeleteObject",
        writes=True,
        parameters=frozenset({"versionId"}),
    ),
)
