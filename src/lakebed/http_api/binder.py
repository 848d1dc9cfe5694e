"""Makes the handlers of operations that call one method of the store, such as `Topic.groups`.

The definition of such an operation names the class and the method in `target`. Its handler finds
the object that the request is for, calls the method and encodes the result. An object that is
already open is found in the event loop's thread. Opening an object, calling the method and encoding
the result happen in another thread. An exception are methods that return a change of the object
store: they only prepare the change, so they are called in the event loop's thread, and no thread
waits for the commit.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any, Final, NamedTuple, get_origin

from msgspec import Struct
from msgspec.structs import asdict

from lakebed.api.operation import NUMBERS, Nothing, Operation
from lakebed.http.response import Response
from lakebed.http_api.call import Call
from lakebed.http_api.handler import Handler
from lakebed.http_api.logs import find_log, find_log_to_read
from lakebed.http_api.lookup import (
    group_of,
    partition_of,
    readable_partition_of,
    readable_topic_of,
    topic_of,
)
from lakebed.http_api.response_builder import response_of
from lakebed.http_api.service import Service
from lakebed.seglake.stored_pages import StoredObjects
from lakebed.store.bucket import Bucket


class Owner(NamedTuple):
    """A class whose methods are called by operations.

    `find` returns the object of this class that a request is for. `names` are the parameters in the
    URL path that identify the object. `changes` are the names of the methods that return a change
    of the object store instead of executing it.
    """

    find: Callable[[Service, Call], Awaitable[object]]
    names: tuple[str, ...] = ()
    changes: frozenset[str] = frozenset()


async def _store(service: Service, _call: Call) -> object:
    return service.store


async def _topics(service: Service, _call: Call) -> object:
    return service.store.topics


async def _topic(service: Service, call: Call) -> object:
    return await (readable_topic_of if _only_reads(call) else topic_of)(service, call)


async def _partition(service: Service, call: Call) -> object:
    return await (readable_partition_of if _only_reads(call) else partition_of)(service, call)


async def _buckets(service: Service, _call: Call) -> object:
    return (await service.lake()).buckets


async def _bucket(service: Service, call: Call) -> object:
    return Bucket(await service.lake(), call.names["bucket"])


async def _keys(service: Service, _call: Call) -> object:
    return (await service.lake()).keys


async def _stored_objects(service: Service, _call: Call) -> object:
    return StoredObjects((await service.lake()).metadata)


async def _log(service: Service, call: Call) -> object:
    if _only_reads(call):
        return await find_log_to_read(service, call)
    return (await find_log(service, call)).log


async def _tiers(service: Service, call: Call) -> object:
    return (await find_log(service, call)).log.tiers


async def _damage(service: Service, _call: Call) -> object:
    return service.store.damage


async def _pins(service: Service, _call: Call) -> object:
    return service.store.pins


def _only_reads(call: Call) -> bool:
    return call.operation.method == "GET"


OWNERS: Final[Mapping[str, Owner]] = {
    "Store": Owner(_store),
    "Topics": Owner(_topics),
    "Topic": Owner(_topic, ("topic",)),
    "Partition": Owner(_partition, ("topic", "partition")),
    "Group": Owner(group_of, ("topic", "group")),
    "Buckets": Owner(_buckets, changes=frozenset({"creation", "configuration"})),
    "Bucket": Owner(_bucket, ("bucket",), changes=frozenset({"copying", "deletion"})),
    "StoredObjects": Owner(_stored_objects),
    "AccessKeys": Owner(_keys),
    "Log": Owner(_log, ("log",)),
    "Tiers": Owner(_tiers, ("log",)),
    "Pins": Owner(_pins),
    "Damage": Owner(_damage),
}


def bound(operation: Operation[Any]) -> Handler:
    """Returns the handler of an operation, which calls the method that `operation.target` names.

    The arguments of the method are the path parameters that do not identify the object, the query
    parameters and the fields of the request body.
    """
    owner_name, _, method = operation.target.partition(".")
    owner = OWNERS[owner_name]

    async def handle(service: Service, call: Call) -> Response:
        body = Nothing() if operation.body is Nothing else await call.document(operation.body)
        target = await owner.find(service, call)
        arguments = [
            call.number(name) if name in NUMBERS else text
            for name, text in call.names.items()
            if name not in owner.names
        ]
        work = partial(getattr(target, method), *arguments, **_fields(call.query), **_fields(body))
        if method in owner.changes:
            return response_of(_document(operation, await service.commit(work())), call)
        return await service.run(lambda: response_of(_document(operation, work()), call))

    handle.__name__ = operation.name
    return handle


def _fields(document: Struct) -> dict[str, Any]:
    return {} if isinstance(document, Nothing) else asdict(document)


def _document(operation: Operation[Any], value: object) -> Any:
    kind = operation.result
    if kind is Nothing:
        return None
    return value if isinstance(value, get_origin(kind) or kind) else kind(value)
