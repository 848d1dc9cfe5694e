"""Handlers for objects whose bytes are streamed, and for calls that need several commits.

A small object is stored as a whole. A large object is received and sent in pieces, so memory is
bounded. The store verifies each piece before it is sent.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, Final

from lakebed.api import media, objects
from lakebed.api.operation import Operation
from lakebed.api.problems import problem_of
from lakebed.base.errors import InputError, LakebedError
from lakebed.base.units import shown
from lakebed.edge.read_ahead import read_ahead
from lakebed.http.response import Response
from lakebed.http_api.call import Call
from lakebed.http_api.handler import Handler
from lakebed.http_api.service import Service
from lakebed.seglake.body import INLINE_BYTES_MAX
from lakebed.seglake.model import Algorithm, Condition, Content, Deleted, ObjectInfo, ObjectToDelete
from lakebed.seglake.names import check_content
from lakebed.seglake.ranges import ByteRange

_CONTENT: Final = (
    "content_type",
    "cache_control",
    "content_disposition",
    "content_encoding",
    "content_language",
    "expires",
)
_NO_TYPES: Final = frozenset({"", media.BYTES, "application/x-www-form-urlencoded"})


async def put_object(service: Service, call: Call) -> ObjectInfo:
    lake = await service.lake()
    bucket, key, query = call.names["bucket"], call.names["key"], call.query
    content = _content_of(call)
    condition = Condition(if_match=query.if_match, if_none_match=query.if_none_match)
    algorithm = _algorithm_of(query.algorithm)
    body = call.request.body
    if body.whole is not None and len(body.whole) <= INLINE_BYTES_MAX:
        change = lake.objects.small_put(
            bucket,
            key,
            body.whole,
            content=content,
            condition=condition,
            algorithm=algorithm,
        )
        return await service.commit(change)
    with lake.objects.begin_put(
        bucket, key, content=content, condition=condition, algorithm=algorithm, size=body.length
    ) as put:
        await service.run(put.check)  # before the body is received
        return await service.bodies.store(body, put)


def _content_of(call: Call) -> Content:
    """Returns the content fields of a new object.

    If the query has no content type, the request's Content-Type applies, unless it is a mere
    default such as `application/octet-stream`.
    """
    fields = {name: getattr(call.query, name) for name in _CONTENT}
    body_type = call.request.headers.get("content-type")
    if fields["content_type"] is None and body_type is not None and call.media not in _NO_TYPES:
        fields["content_type"] = body_type
    metadata = _metadata_of(call.query.metadata)
    content = Content(**fields, metadata=metadata)
    check_content(content)
    return content


def _metadata_of(text: str | None) -> dict[str, str]:
    try:
        return {} if text is None else media.decode(text.encode(), dict[str, str], media.JSON)
    except media.BadDocument:
        raise InputError("metadata must be a JSON object whose values are strings") from None


def _algorithm_of(name: str | None) -> Algorithm | None:
    try:
        return None if name is None else Algorithm(name.upper())
    except ValueError:
        names = ", ".join(algorithm.value for algorithm in Algorithm)
        raise InputError(
            f"unknown algorithm {shown(name or '')}; the known ones are: {names}"
        ) from None


async def get_object(service: Service, call: Call) -> Response:
    lake = await service.lake()
    query: objects.GetQuery = call.query
    byte_range = None
    if query.first is not None or query.last is not None:
        byte_range = ByteRange(query.first, query.last)
    find = partial(
        lake.objects.get,
        call.names["bucket"],
        call.names["key"],
        version_id=query.version_id,
        byte_range=byte_range,
        waits=False,
    )
    reader = await service.run(find)
    info = reader.info
    headers = [
        ("Content-Type", media.BYTES),  # never the object's own type: a browser must not run it
        ("ETag", f'"{info.etag}"'),
        ("Lakebed-Size", str(info.size)),
        ("Lakebed-Version-Id", info.version_id),
        ("Lakebed-Modified-Ms", str(info.modified_ms)),
    ]
    pieces = iter(reader) if call.request.is_secure else reader.places()
    return Response(200, headers, await read_ahead(service, pieces), length=len(reader))


async def delete_bucket(service: Service, call: Call) -> None:
    lake, name = await service.lake(), call.names["bucket"]
    await service.run(partial(lake.buckets.check_deletable, name))
    while not await service.commit(lake.buckets.deletion(name)):
        pass


async def delete_objects(service: Service, call: Call) -> objects.DeletedMany:
    """Deletes each object independently of the others; returns a result or an error for each."""
    document, lake = await call.document(objects.DeleteMany), await service.lake()
    targets = [
        ObjectToDelete(entry.key, entry.version_id, Condition(if_match=entry.if_match))
        for entry in document.objects
    ]
    changes = await service.run(partial(lake.objects.deletions, call.names["bucket"], targets))
    results = await service.commit_each(changes)
    failures = (result for result in results if isinstance(result, LakebedError))
    service.failures.note_in_body(failures, call.request)
    return objects.DeletedMany([_outcome(result, call.request.id) for result in results])


def _outcome(deleted: Deleted | LakebedError, request_id: str) -> objects.DeleteOutcome:
    if isinstance(deleted, LakebedError):
        return objects.DeleteOutcome(problem=problem_of(deleted, request_id=request_id))
    return objects.DeleteOutcome(deleted=deleted)


HANDLERS: Final[Mapping[Operation[Any], Handler]] = {
    objects.DELETE_BUCKET: delete_bucket,
    objects.PUT_OBJECT: put_object,
    objects.GET_OBJECT: get_object,
    objects.DELETE_OBJECTS: delete_objects,
}
