"""The handlers of topics and their partitions. Messages are in `producing` and `fetching`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from functools import partial
from typing import Any, Final

from lakebed.api import topics
from lakebed.api.operation import Operation
from lakebed.api.topics import (
    AdvancedTopics,
    AdvanceTopics,
    Configure,
    EnsuredTopic,
    NewTopic,
    Offset,
    Offsets,
    PartitionState,
    Sealed,
    TopicNames,
    TopicState,
    Truncate,
    Truncated,
)
from lakebed.base.errors import NoSpace, WriteFailed
from lakebed.http_api.call import Call
from lakebed.http_api.fetching import fetch, fetch_raw
from lakebed.http_api.handler import Handler
from lakebed.http_api.lookup import partition_of, readable_partition_of, topic_of
from lakebed.http_api.producing import produce
from lakebed.http_api.service import Service
from lakebed.store.read_only_topic import ReadOnlyTopic
from lakebed.store.topics import StoreTopic


async def list_topics(service: Service, _: Call) -> TopicNames:
    return TopicNames(await service.run(service.store.topics.names))


async def create_topic(service: Service, call: Call) -> TopicState:
    asked = await call.document(NewTopic)
    created = await service.run(
        lambda: service.store.topics.create(
            asked.name, partitions=asked.partitions, settings=asked.settings
        )
    )
    return _state(created)  # a new topic is whole


async def ensure_topic(service: Service, call: Call) -> TopicState:
    asked = await call.document(EnsuredTopic)
    topics, name = service.store.topics, call.names["topic"]

    def ensure() -> TopicState:
        try:
            return _state(topics.ensure(name, partitions=asked.partitions, settings=asked.settings))
        except (NoSpace, WriteFailed):
            state = _state(topics.open_to_read(name))  # it is there, and can be read
            if asked.partitions not in (None, len(state.partitions)):
                raise
            return state

    return await service.run(ensure)


async def describe_topic(service: Service, call: Call) -> TopicState:
    topics, name = service.store.topics, call.names["topic"]
    opened = topics.opened_topic(name)
    if opened is not None and opened.topic.is_whole:
        return _state(opened)
    return await service.run(lambda: _state(topics.open_to_read(name)))


async def configure_topic(service: Service, call: Call) -> TopicState:
    asked, topic = await call.document(Configure), await topic_of(service, call)
    await service.run(lambda: service.store.topics.configure(topic.name, asked.settings))
    return await service.run(lambda: _state(topic))


async def delete_topic(service: Service, call: Call) -> None:
    await service.run(lambda: service.store.topics.delete(call.names["topic"]))


async def offset_for_time(service: Service, call: Call) -> Offset:
    partition, at_ms = await readable_partition_of(service, call), call.query.timestamp_ms
    return Offset(await service.run(lambda: partition.offset_for_time(at_ms)))


async def offsets_for_time(service: Service, call: Call) -> Offsets:
    topic, at_ms = await topic_of(service, call), call.query.timestamp_ms
    return Offsets(await service.run(lambda: topic.offsets_for_time(at_ms)))


async def advance_topics(service: Service, call: Call) -> AdvancedTopics:
    query = await call.document(AdvanceTopics)
    advance = partial(
        service.store.topics.advance,
        query.ranges,
        messages_max=query.max_messages,
        bytes_max=query.max_bytes,
    )
    return AdvancedTopics(await service.run(advance))


async def truncate(service: Service, call: Call) -> Truncated:
    asked, partition = await call.document(Truncate), await partition_of(service, call)
    return Truncated(await service.run(lambda: partition.truncate_before(asked.before)))


async def seal_partition(service: Service, call: Call) -> Sealed:
    partition = await partition_of(service, call)
    return Sealed(await service.run(partition.seal))


async def sync_partition(service: Service, call: Call) -> None:
    partition = await partition_of(service, call)
    await service.run(partition.sync)


def _state(topic: StoreTopic | ReadOnlyTopic) -> TopicState:
    partitions = [
        PartitionState(
            partition=partition.number,
            start_offset=partition.start_offset(),
            high_watermark=partition.high_watermark(),
        )
        for partition in topic.partitions
    ]
    settings = asdict(topic.config)
    return TopicState(topic.name, partitions, settings, topic.identity.topic_id)


HANDLERS: Final[Mapping[Operation[Any], Handler]] = {
    topics.LIST_TOPICS: list_topics,
    topics.CREATE_TOPIC: create_topic,
    topics.ENSURE_TOPIC: ensure_topic,
    topics.DESCRIBE_TOPIC: describe_topic,
    topics.CONFIGURE_TOPIC: configure_topic,
    topics.DELETE_TOPIC: delete_topic,
    topics.PRODUCE: produce,
    topics.FETCH: fetch,
    topics.FETCH_RAW: fetch_raw,
    topics.OFFSET_FOR_TIME: offset_for_time,
    topics.OFFSETS_FOR_TIME: offsets_for_time,
    topics.ADVANCE_TOPICS: advance_topics,
    topics.TRUNCATE: truncate,
    topics.SEAL_PARTITION: seal_partition,
    topics.SYNC_PARTITION: sync_partition,
}
