"""The handlers of objects that stream, or take more than one commit.

A small one is handled at once. A large one is received and sent in pieces, each verified by the
store before a byte of it leaves, so memory stays bounded whatever its size.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Final

from lakebed.api import media, objects
from lakebed.api.operation import Operation
from lakebed.api.problems import problem_of
from lakebed.base.errors import InputError, LakebedError
from lakebed.base.units import shown
from lakebed.http.response import Response
from lakebed.http_api.call import Call
from lakebed.http_api.handler import Handler
from lakebed.http_api.incoming import pumped
from lakebed.http_api.lakes import commit, handed_over, lake_of, receiving
from lakebed.http_api.service import Service
from lakebed.http_api.streaming import streamed
from lakebed.seglake.body import INLINE_BYTES_MAX
from lakebed.seglake.commits import Change, Pending
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
    lake = await lake_of(service)
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
        return await commit(service, change)
    with (
        receiving(service) as reception,
        lake.objects.begin_put(
            bucket, key, content=content, condition=condition, algorithm=algorithm, size=body.length
        ) as put,
    ):
        await service.run(put.check)  # rather than have the body sent
        change = await pumped(service, body, put, reception)
    return await service.done(await handed_over(service, change))


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
    lake = await lake_of(service)
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
    return Response(200, headers, await streamed(service, pieces), length=len(reader))


async def delete_bucket(service: Service, call: Call) -> None:
    lake, name = await lake_of(service), call.names["bucket"]
    await service.run(partial(lake.buckets.check_deletable, name))
    while not await commit(service, lake.buckets.deletion(name)):
        pass


async def delete_objects(service: Service, call: Call) -> objects.DeletedMany:
    """Each by itself: an error of one is returned in its place, and the others are deleted."""
    document, lake = await call.document(objects.DeleteMany), await lake_of(service)
    targets = [
        ObjectToDelete(one.key, one.version_id, Condition(if_match=one.if_match))
        for one in document.objects
    ]
    changes = await service.run(partial(lake.objects.deletions, call.names["bucket"], targets))
    return objects.DeletedMany(await _each_deleted(service, call, changes))


async def _each_deleted(
    service: Service, call: Call, changes: Sequence[Change[Deleted] | LakebedError]
) -> list[objects.DeleteOutcome]:
    """All are handed over before the first is waited for: they share batches."""
    handed: list[Pending[Deleted] | LakebedError] = []
    for change in changes:
        try:
            if isinstance(change, LakebedError):
                handed.append(change)
            else:
                handed.append(await handed_over(service, change))
        except LakebedError as error:
            handed.append(error)
    outcomes = []
    for one in handed:
        try:
            if isinstance(one, LakebedError):
                raise one
            outcomes.append(objects.DeleteOutcome(deleted=await service.done(one)))
        except LakebedError as error:
            problem = problem_of(error, request_id=call.request.id)
            outcomes.append(objects.DeleteOutcome(problem=problem))
    return outcomes


HANDLERS: Final[Mapping[Operation[Any], Handler]] = {
    objects.DELETE_BUCKET: delete_bucket,
    objects.PUT_OBJECT: put_object,
    objects.GET_OBJECT: get_object,
    objects.DELETE_OBJECTS: delete_objects,
}
