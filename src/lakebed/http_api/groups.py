"""Handlers that open, describe and peek into groups. Leases are in `lease_handlers`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from lakebed.api import groups
from lakebed.api.groups import GroupState, OpenGroup, Peeked, PeekQuery
from lakebed.api.operation import Operation
from lakebed.api.topics import Settings
from lakebed.base.config import load
from lakebed.http.response import Response
from lakebed.http_api.call import Call
from lakebed.http_api.handler import Handler
from lakebed.http_api.lease_handlers import lease
from lakebed.http_api.lookup import group_of, topic_of
from lakebed.http_api.response_builder import response_of
from lakebed.http_api.service import Service
from lakebed.store.group import Group
from lakebed.stroma.config import GroupConfig


async def open_group(service: Service, call: Call) -> GroupState:
    document, topic = await call.document(OpenGroup), await topic_of(service, call)
    name, settings = call.names["group"], document.settings
    if settings is None:
        return await service.run(lambda: _state(topic.group(name)))
    config = _config(service.store.topics.group_config, settings)
    return await service.run(lambda: _state(topic.group_with(name, config, named=settings)))


async def describe_group(service: Service, call: Call) -> GroupState:
    group = await group_of(service, call)
    return await service.run(lambda: _state(group))


async def peek(service: Service, call: Call) -> Response:
    group, query = await group_of(service, call), call.query
    return await service.run(lambda: response_of(_peeked(group, query), call))


def _config(defaults: GroupConfig, settings: Settings) -> GroupConfig:
    """Returns the store's default group settings, changed by `settings`. Raises `BadConfig` if one
    is not valid."""
    loaded = load(GroupConfig, settings, where="the group's settings")
    return replace(defaults, **{name: getattr(loaded, name) for name in settings})


def _state(group: Group) -> GroupState:
    return GroupState(group.topic.name, group.name, group.describe())


def _peeked(group: Group, query: PeekQuery) -> Peeked:
    messages = group.peek(max_messages=query.max_messages, max_bytes=query.max_bytes)
    return Peeked(
        partitions=[message.partition for message in messages],
        offsets=[message.offset for message in messages],
        timestamps_ms=[message.timestamp_ms for message in messages],
        keys=[message.key for message in messages],
        values=[message.value for message in messages],
        headers=[list(message.headers) for message in messages],
    )


HANDLERS: Final[Mapping[Operation[Any], Handler]] = {
    groups.OPEN_GROUP: open_group,
    groups.DESCRIBE_GROUP: describe_group,
    groups.LEASE: lease,
    groups.PEEK: peek,
}
