"""Objects deleted: one, or up to a thousand in one request."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Final

from lakebed.base.errors import LakebedError
from lakebed.http.request import Request
from lakebed.http.response import Response
from lakebed.s3 import xml_documents
from lakebed.s3.auth.identity import Identity
from lakebed.s3.errors import XML, to_s3
from lakebed.s3.message import read_message
from lakebed.s3.operations import DeleteObject, DeleteObjects
from lakebed.s3.service import Service
from lakebed.s3.unsupported import not_implemented
from lakebed.s3.xml_documents import NotDeleted
from lakebed.s3.xml_parsing import DELETE_BYTES_MAX, Deletion, parse_deletion
from lakebed.seglake.commits import Change, Pending
from lakebed.seglake.model import NO_CONDITION, Condition, Deleted, ObjectToDelete

_AT_ONCE: Final = 64  # are handed over in one turn of the loop
_UNSUPPORTED: Final = ("if-none-match", "if-modified-since", "if-unmodified-since")


async def delete_object(
    service: Service, operation: DeleteObject, request: Request, _identity: Identity
) -> Response:
    """What is not there is deleted already."""
    condition = _condition(request)
    doomed = ObjectToDelete(operation.key, operation.version_id, condition)
    done = await service.commit(service.lake.objects.deletion(operation.bucket, doomed))
    headers = []
    if done.is_marker:
        headers.append(("x-amz-delete-marker", "true"))
    if done.version_id is not None:
        headers.append(("x-amz-version-id", done.version_id))
    return Response(204, headers)


def _condition(request: Request) -> Condition:
    for name in _UNSUPPORTED:
        if name in request.headers:
            raise not_implemented(
                "A header you provided implies functionality that is not implemented", header=name
            )
    value = request.headers.get("if-match")
    return NO_CONDITION if value is None else Condition(if_match=value.strip().strip('"'))


async def delete_objects(
    service: Service, operation: DeleteObjects, request: Request, identity: Identity
) -> Response:
    """Each by itself: an error of one is told in its place, and the others are deleted."""
    data = await read_message(request, identity, bytes_max=DELETE_BYTES_MAX, needs_digest=True)
    asked, changes = await service.run(partial(_prepared, service, operation.bucket, data))
    results = await _each_done(service, changes)
    body = await service.run(lambda: xml_documents.deletion(_told(asked, results)))
    return Response(200, [XML], body)


def _prepared(
    service: Service, bucket: str, data: bytes
) -> tuple[Deletion, Sequence[Change[Deleted] | LakebedError]]:
    asked = parse_deletion(data)
    return asked, service.lake.objects.deletions(bucket, asked.doomed)


async def _each_done(
    service: Service, changes: Sequence[Change[Deleted] | LakebedError]
) -> list[Deleted | LakebedError]:
    """All are handed over before the first is waited for: they share batches."""
    pending: list[Pending[Deleted] | LakebedError] = []
    for index, change in enumerate(changes):
        if index % _AT_ONCE == 0:
            await asyncio.sleep(0)  # others have their turn in between
        if isinstance(change, LakebedError):
            pending.append(change)
            continue
        try:
            pending.append(await service.handed_over(change))
        except LakebedError as error:
            pending.append(error)
    results: list[Deleted | LakebedError] = []
    for one in pending:
        if isinstance(one, LakebedError):
            results.append(one)
            continue
        try:
            deleted = await service.done(one)
            results.append(deleted)
        except LakebedError as error:
            results.append(error)
    return results


def _told(
    asked: Deletion, results: list[Deleted | LakebedError]
) -> Iterator[tuple[Deleted, str | None] | NotDeleted]:
    """If it should be quiet, only what went wrong."""
    for doomed, result in zip(asked.doomed, results, strict=True):
        if isinstance(result, LakebedError):
            yield NotDeleted(doomed.key, doomed.version_id, to_s3(result))
        elif not asked.is_quiet:
            yield result, doomed.version_id
