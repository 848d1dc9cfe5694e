"""The handlers of consumer groups. Leasing and settling are in `leasing`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from lakebed.api import groups
from lakebed.api.groups import (
    DeadLetters,
    DeadLettersQuery,
    GroupNames,
    GroupPartition,
    GroupState,
    Lag,
    OpenGroup,
    Peeked,
    PeekQuery,
    Redrive,
    Redriven,
    Reset,
    SeekTo,
    WireDeadLetter,
)
from lakebed.api.operation import Operation
from lakebed.api.topics import FETCH_BYTES_MAX, Settings
from lakebed.base.config import load
from lakebed.base.errors import InputError
from lakebed.http.response import Response
from lakebed.http_api.answer import response_of
from lakebed.http_api.call import Call
from lakebed.http_api.handler import Handler
from lakebed.http_api.leasing import ack, extend, lease, nack
from lakebed.http_api.lookup import group_of, topic_of
from lakebed.http_api.service import Service
from lakebed.store.dead_letters import DeadLetter
from lakebed.store.group import Group
from lakebed.stroma.config import GroupConfig


async def list_groups(service: Service, call: Call) -> GroupNames:
    topic, topics = await topic_of(service, call), service.store.topics
    return GroupNames(await service.run(lambda: topics.groups(topic.name)))


async def open_group(service: Service, call: Call) -> GroupState:
    asked, topic = await call.document(OpenGroup), await topic_of(service, call)
    name, settings = call.names["group"], asked.settings
    if settings is None:
        return await service.run(lambda: _state(topic.group(name)))
    config = _config(service.store.topics.group_config, settings)
    return await service.run(lambda: _state(topic.group_with(name, config, named=settings)))


async def describe_group(service: Service, call: Call) -> GroupState:
    group = await group_of(service, call)
    return await service.run(lambda: _state(group))


async def delete_group(service: Service, call: Call) -> None:
    topic, topics = await topic_of(service, call), service.store.topics
    await service.run(lambda: topics.delete_group(topic.name, call.names["group"]))


async def lag(service: Service, call: Call) -> Lag:
    group = await group_of(service, call)
    return Lag(await service.run(group.lag))


async def peek(service: Service, call: Call) -> Response:
    group, query = await group_of(service, call), call.query
    return await service.run(lambda: response_of(_peeked(group, query), call))


async def reset(service: Service, call: Call) -> None:
    asked, group = await call.document(Reset), await group_of(service, call)
    await service.run(lambda: group.reset(partition=asked.partition))


async def seek(service: Service, call: Call) -> None:
    asked, group = await call.document(SeekTo), await group_of(service, call)
    _check_one_way(asked)
    await service.run(lambda: _seek(group, asked))


async def dead_letters(service: Service, call: Call) -> Response:
    group, query = await group_of(service, call), call.query
    return await service.run(lambda: response_of(_dead_letters(group, query), call))


async def redrive(service: Service, call: Call) -> Redriven:
    asked, group = await call.document(Redrive), await group_of(service, call)
    return Redriven(await service.run(lambda: group.redrive(max_messages=asked.max_messages)))


def _config(defaults: GroupConfig, settings: Settings) -> GroupConfig:
    """On top of the store's; `BadConfig` if one is unknown or wrong."""
    loaded = load(GroupConfig, settings, where="the group's settings")
    return replace(defaults, **{name: getattr(loaded, name) for name in settings})


def _state(group: Group) -> GroupState:
    partitions = [
        GroupPartition(partition=number, **{**found._asdict(), "problems": list(found.problems)})
        for number, found in group.describe().items()
    ]
    return GroupState(group.topic.name, group.name, partitions)


def _peeked(group: Group, query: PeekQuery) -> Peeked:
    found = group.peek(max_messages=query.max_messages, max_bytes=query.max_bytes)
    return Peeked(
        partitions=[one.partition for one in found],
        offsets=[one.offset for one in found],
        timestamps_ms=[one.timestamp_ms for one in found],
        keys=[one.key for one in found],
        values=[one.value for one in found],
        headers=[list(one.headers) for one in found],
    )


def _check_one_way(asked: SeekTo) -> None:
    ways = [asked.offset is not None, asked.timestamp_ms is not None, asked.to_end]
    if sum(ways) != 1:
        raise InputError("seek: one of offset, timestamp_ms and to_end")
    if (asked.offset is None) != (asked.partition is None):
        raise InputError("seek: an offset needs its partition, and nothing else has one")


def _seek(group: Group, asked: SeekTo) -> None:
    if asked.to_end:
        group.seek_to_end()
    elif asked.timestamp_ms is not None:
        group.seek_to_time(asked.timestamp_ms)
    else:
        assert asked.offset is not None
        assert asked.partition is not None
        group.seek(asked.offset, partition=asked.partition)


def _dead_letters(group: Group, query: DeadLettersQuery) -> DeadLetters:
    letters: list[WireDeadLetter] = []
    left_bytes = FETCH_BYTES_MAX
    for number, letter in group.dead_letters_from(partition=query.partition, offset=query.offset):
        message = letter.message
        left_bytes -= len(message.key or b"") + len(message.value or b"")
        if letters and (left_bytes < 0 or len(letters) == query.max_messages):
            return DeadLetters(letters, next_partition=number, next_offset=message.offset)
        letters.append(_wire(letter))
    return DeadLetters(letters)


def _wire(letter: DeadLetter) -> WireDeadLetter:
    origin, message = letter
    return WireDeadLetter(
        topic=origin.topic,
        partition=origin.partition,
        offset=origin.offset,
        group=origin.group,
        delivery_count=origin.delivery_count,
        letter_offset=message.offset,
        timestamp_ms=message.timestamp_ms,
        key=message.key,
        value=message.value,
        headers=list(message.headers),
        flags=message.flags,
        topic_id=origin.topic_id,
    )


HANDLERS: Final[Mapping[Operation[Any], Handler]] = {
    groups.LIST_GROUPS: list_groups,
    groups.OPEN_GROUP: open_group,
    groups.DESCRIBE_GROUP: describe_group,
    groups.DELETE_GROUP: delete_group,
    groups.LAG: lag,
    groups.LEASE: lease,
    groups.ACK: ack,
    groups.NACK: nack,
    groups.EXTEND: extend,
    groups.PEEK: peek,
    groups.RESET: reset,
    groups.SEEK: seek,
    groups.DEAD_LETTERS: dead_letters,
    groups.REDRIVE: redrive,
}
