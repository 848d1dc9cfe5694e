"""What a call's path names: a topic, a partition, a group. Open ones are found without a thread."""

from __future__ import annotations

from lakebed.http_api.call import Call
from lakebed.http_api.service import Service
from lakebed.keratin.partition import Partition
from lakebed.keratin.read_only import ReadOnlyPartition
from lakebed.store.group import Group
from lakebed.store.read_only_topic import ReadOnlyTopic
from lakebed.store.topics import StoreTopic


async def topic_of(service: Service, call: Call) -> StoreTopic:
    """`NotFound` if there is none."""
    topics, name = service.store.topics, call.names["topic"]
    opened = topics.opened_topic(name)
    return await service.run(lambda: topics.open(name)) if opened is None else opened


async def readable_topic_of(service: Service, call: Call) -> StoreTopic | ReadOnlyTopic:
    """For a call that only reads: it is also answered while the disk takes no writes."""
    topics, name = service.store.topics, call.names["topic"]
    opened = topics.opened_topic(name)
    if opened is not None and opened.is_whole:
        return opened
    return await service.run(lambda: topics.open_to_read(name))


async def partition_of(service: Service, call: Call) -> Partition:
    """`NotFound` if there is no such topic, or it has no such partition."""
    topics, name, number = service.store.topics, call.names["topic"], call.number("partition")
    opened = _opened_partition(service, name, number)
    if opened is not None:
        return opened
    return await service.run(lambda: topics.open(name).partition(number))


async def readable_partition_of(service: Service, call: Call) -> Partition | ReadOnlyPartition:
    """For a call that only reads: it is also answered while the disk takes no writes."""
    topics, name, number = service.store.topics, call.names["topic"], call.number("partition")
    opened = _opened_partition(service, name, number)
    if opened is not None:
        return opened

    def open_to_read() -> Partition | ReadOnlyPartition:
        return topics.open_to_read(name, partition=number).partition(number)

    return await service.run(open_to_read)


def _opened_partition(service: Service, name: str, number: int) -> Partition | None:
    opened = service.store.topics.opened_topic(name)
    return None if opened is None else opened.opened_partition(number)


async def group_of(service: Service, call: Call) -> Group:
    """One that is there: `NotFound` if nobody opened it yet."""
    topics, topic, name = service.store.topics, call.names["topic"], call.names["group"]
    opened = topics.opened_group(topic, name)
    return await service.run(lambda: topics.open_group(topic, name)) if opened is None else opened
