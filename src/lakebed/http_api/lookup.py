"""Finds the topic, partition or group that a call names.

If it is already open, it is found without a worker thread.
"""

from __future__ import annotations

from lakebed.http_api.call import Call
from lakebed.http_api.service import Service
from lakebed.keratin.partition import Partition
from lakebed.keratin.read_only import ReadOnlyPartition
from lakebed.store.group import Group
from lakebed.store.read_only_topic import ReadOnlyTopic
from lakebed.store.topics import StoreTopic


async def topic_of(service: Service, call: Call) -> StoreTopic:
    """Returns the topic that a call names. Raises `NotFound` if it does not exist."""
    topics, name = service.store.topics, call.names["topic"]
    opened = topics.opened_topic(name)
    return await service.run(lambda: topics.open(name)) if opened is None else opened


async def readable_topic_of(service: Service, call: Call) -> StoreTopic | ReadOnlyTopic:
    """Returns the topic that a call names, for reading. Raises `NotFound` if it does not exist.

    This also works while the disk accepts no writes.
    """
    topics, name = service.store.topics, call.names["topic"]
    opened = topics.opened_topic(name)
    if opened is not None and opened.is_whole:
        return opened
    return await service.run(lambda: topics.open_to_read(name))


async def partition_of(service: Service, call: Call) -> Partition:
    """Returns the partition that a call names. Raises `NotFound` if the partition or its topic does
    not exist."""
    topics, name, number = service.store.topics, call.names["topic"], call.number("partition")
    opened = _opened_partition(service, name, number)
    if opened is not None:
        return opened
    return await service.run(lambda: topics.open(name).partition(number))


async def readable_partition_of(service: Service, call: Call) -> Partition | ReadOnlyPartition:
    """Returns the partition that a call names, for reading. This also works while the disk accepts
    no writes.

    Raises `NotFound` if the partition or its topic does not exist.
    """
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
    """Returns the group that a call names. Raises `NotFound` if the group or its topic does not
    exist."""
    topics, topic, name = service.store.topics, call.names["topic"], call.names["group"]
    opened = topics.opened_group(topic, name)
    return await service.run(lambda: topics.open_group(topic, name)) if opened is None else opened
