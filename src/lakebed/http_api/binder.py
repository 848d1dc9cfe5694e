"""Carries out the operations that name a target: finds the object, calls its method, answers.

An object that is open is found in the loop's thread; opening one, the method itself and the
encoding of what it returns are left to another thread.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any, Final, NamedTuple

from msgspec import Struct
from msgspec.structs import asdict

from lakebed.api.operation import Nothing, Operation
from lakebed.http.response import Response
from lakebed.http_api.answer import response_of
from lakebed.http_api.call import Call
from lakebed.http_api.handler import Handler
from lakebed.http_api.lookup import (
    group_of,
    partition_of,
    readable_partition_of,
    readable_topic_of,
    topic_of,
)
from lakebed.http_api.service import Service


class Owner(NamedTuple):
    """How objects of a class are found, and which names of the path say which one it is."""

    find: Callable[[Service, Call], Awaitable[object]]
    names: tuple[str, ...] = ()


async def _store(service: Service, _call: Call) -> object:
    return service.store


async def _topics(service: Service, _call: Call) -> object:
    return service.store.topics


async def _topic(service: Service, call: Call) -> object:
    return await (readable_topic_of if _only_reads(call) else topic_of)(service, call)


async def _partition(service: Service, call: Call) -> object:
    return await (readable_partition_of if _only_reads(call) else partition_of)(service, call)


def _only_reads(call: Call) -> bool:
    return call.operation.method == "GET"


OWNERS: Final[Mapping[str, Owner]] = {
    "Store": Owner(_store),
    "Topics": Owner(_topics),
    "Topic": Owner(_topic, ("topic",)),
    "Partition": Owner(_partition, ("topic", "partition")),
    "Group": Owner(group_of, ("topic", "group")),
}


def bound(operation: Operation[Any]) -> Handler:
    """The handler of an operation that names its target."""
    owner_name, _, method = operation.target.partition(".")
    owner = OWNERS[owner_name]

    async def carry_out(service: Service, call: Call) -> Response:
        body = Nothing() if operation.body is Nothing else await call.document(operation.body)
        target = await owner.find(service, call)
        others = [text for name, text in call.names.items() if name not in owner.names]
        work = partial(getattr(target, method), *others, **_fields(call.query), **_fields(body))
        return await service.run(lambda: response_of(_document(operation, work()), call))

    carry_out.__name__ = operation.name
    return carry_out


def _fields(document: Struct) -> dict[str, Any]:
    return {} if isinstance(document, Nothing) else asdict(document)


def _document(operation: Operation[Any], value: object) -> Any:
    kind = operation.result
    if kind is Nothing:
        return None
    return value if isinstance(value, kind) else kind(value)
