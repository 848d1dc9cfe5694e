"""Handlers of topics. `produce_handlers` and `fetch_handlers` have those of messages."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, Final

from lakebed.api import topics
from lakebed.api.operation import Operation
from lakebed.api.topics import (
    Configure,
    EnsuredTopic,
    NewTopic,
    PartitionState,
    TopicState,
)
from lakebed.base.errors import DiskError, NoSpace
from lakebed.http_api.call import Call
from lakebed.http_api.fetch_handlers import fetch, fetch_raw
from lakebed.http_api.handler import Handler
from lakebed.http_api.lookup import readable_topic_of, topic_of
from lakebed.http_api.produce_handlers import produce
from lakebed.http_api.service import Service
from lakebed.store.read_only_topic import ReadOnlyTopic
from lakebed.store.topics import StoreTopic


async def create_topic(service: Service, call: Call) -> TopicState:
    document = await call.document(NewTopic)
    created = await service.run(
        lambda: service.store.topics.create(
            document.name, partitions=document.partitions, settings=document.settings
        )
    )
    return _state(created)  # all partitions of a new topic are open


async def ensure_topic(service: Service, call: Call) -> TopicState:
    document = await call.document(EnsuredTopic)
    topics, name = service.store.topics, call.names["topic"]

    def ensure() -> TopicState:
        try:
            return _state(
                topics.ensure(name, partitions=document.partitions, settings=document.settings)
            )
        except (NoSpace, DiskError):
            state = _state(topics.open_to_read(name))  # `NotFound` if there is no topic
            if document.partitions not in (None, len(state.partitions)):
                raise
            return state

    return await service.run(ensure)


async def describe_topic(service: Service, call: Call) -> TopicState:
    topic = await readable_topic_of(service, call)
    return await service.run(lambda: _state(topic))


async def configure_topic(service: Service, call: Call) -> TopicState:
    document, name = await call.document(Configure), call.names["topic"]
    await service.run(lambda: service.store.topics.configure(name, document.settings))
    topic = await topic_of(service, call)
    return await service.run(lambda: _state(topic))


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
    topics.CREATE_TOPIC: create_topic,
    topics.ENSURE_TOPIC: ensure_topic,
    topics.DESCRIBE_TOPIC: describe_topic,
    topics.CONFIGURE_TOPIC: configure_topic,
    topics.PRODUCE: produce,
    topics.FETCH: fetch,
    topics.FETCH_RAW: fetch_raw,
}
