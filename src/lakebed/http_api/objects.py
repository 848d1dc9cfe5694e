"""Objects: stored, read, described and deleted.

A small one is handled at once. A large one is received and sent in pieces, each verified by the
store before a byte of it leaves, so memory stays bounded whatever its size.
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
from lakebed.seglake.model import Algorithm, Condition, Content, ObjectInfo
from lakebed.seglake.names import check_content
from lakebed.seglake.ranges import ByteRange
from lakebed.seglake.versions import Deleted

# Imported when an object is changed: who has only logs and topics needs no SQLite.

_CONTENT: Final = (
    "content_type",
    "cache_control",
    "content_disposition",
    "content_encoding",
    "content_language",
    "expires",
)
_NO_TYPES: Final = frozenset({"", media.BYTES, "application/x-www-form-urlencoded"})


async def put_object(service: Service, call: Call) -> objects.ObjectState:
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
        return state_of(await service.commit(change))
    with lake.objects.begin_put(
        bucket, key, content=content, condition=condition, algorithm=algorithm, size=body.length
    ) as put:
        await service.run(put.check)  # rather than have the body sent
        return state_of(await service.bodies.store(body, put))


def _content_of(call: Call) -> Content:
    """A type that the body itself is said to have is the object's, unless the query says one."""
    given = {name: getattr(call.query, name) for name in _CONTENT}
    said = call.request.headers.get("content-type")
    if given["content_type"] is None and said is not None and call.media not in _NO_TYPES:
        given["content_type"] = said
    metadata = _metadata_of(call.query.metadata)
    content = Content(**given, metadata=metadata)
    check_content(content)
    return content


def _metadata_of(text: str | None) -> dict[str, str]:
    try:
        return {} if text is None else media.decode(text.encode(), dict[str, str], media.JSON)
    except media.BadDocument:
        raise InputError("metadata is a JSON object of texts, and nothing else") from None


def _algorithm_of(name: str | None) -> Algorithm | None:
    try:
        return None if name is None else Algorithm(name.upper())
    except ValueError:
        known = ", ".join(one.value for one in Algorithm)
        raise InputError(f"algorithm {shown(name or '')}: known are {known}") from None


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
        ("Content-Type", media.BYTES),  # whatever it is, no browser shall run it
        ("ETag", f'"{info.etag}"'),
        ("Lakebed-Size", str(info.size)),
        ("Lakebed-Version-Id", info.version_id),
        ("Lakebed-Modified-Ms", str(info.modified_ms)),
    ]
    pieces = iter(reader) if call.request.is_secure else reader.places()
    return Response(200, headers, await read_ahead(service, pieces), length=len(reader))


async def describe_object(service: Service, call: Call) -> objects.ObjectState:
    lake = await service.lake()
    head = partial(
        lake.objects.head,
        call.names["bucket"],
        call.names["key"],
        version_id=call.query.version_id,
    )
    return state_of(await service.run(head))


async def delete_object(service: Service, call: Call) -> objects.DeletedState:
    from lakebed.seglake.objects import Doomed

    lake = await service.lake()
    query: objects.DeleteQuery = call.query
    doomed = Doomed(call.names["key"], query.version_id, Condition(if_match=query.if_match))
    deleted = await service.commit(lake.objects.deletion(call.names["bucket"], doomed))
    return _deleted(deleted)


async def delete_objects(service: Service, call: Call) -> objects.DeletedMany:
    """Each by itself: an error of one is told in its place, and the others are deleted."""
    from lakebed.seglake.objects import Doomed

    asked = await call.document(objects.DeleteMany)
    lake = await service.lake()
    doomed = [Doomed(one.key, one.version_id) for one in asked.objects]
    changes = await service.run(partial(lake.objects.deletions, call.names["bucket"], doomed))
    deleted = await service.commit_each(changes)
    return objects.DeletedMany([_outcome(one, call.request.id) for one in deleted])


def _outcome(deleted: Deleted | LakebedError, request_id: str) -> objects.DeleteOutcome:
    if isinstance(deleted, LakebedError):
        return objects.DeleteOutcome(problem=problem_of(deleted, request_id=request_id))
    return objects.DeleteOutcome(deleted=_deleted(deleted))


def _deleted(deleted: Deleted) -> objects.DeletedState:
    return objects.DeletedState(deleted.version_id, deleted.is_marker)


def state_of(info: ObjectInfo) -> objects.ObjectState:
    return objects.ObjectState(
        bucket=info.bucket,
        key=info.key,
        version_id=info.version_id,
        is_null=info.is_null,
        is_latest=info.is_latest,
        state=info.state.value,
        etag=info.etag,
        size=info.size,
        modified_ms=info.modified_ms,
        content={name: getattr(info.content, name) for name in _CONTENT},
        metadata=dict(info.content.metadata),
        checksums=[
            objects.WireChecksum(one.algorithm.value, one.value, one.is_composite)
            for one in info.checksums
        ],
        part_sizes=list(info.part_sizes),
    )


HANDLERS: Final[Mapping[Operation[Any], Handler]] = {
    objects.PUT_OBJECT: put_object,
    objects.GET_OBJECT: get_object,
    objects.DESCRIBE_OBJECT: describe_object,
    objects.DELETE_OBJECT: delete_object,
    objects.DELETE_OBJECTS: delete_objects,
}
