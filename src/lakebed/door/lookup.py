"""What a call's path names: a topic, a partition, a group. Open ones are found without a thread."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakebed.door.call import Call
from lakebed.door.service import Service

if TYPE_CHECKING:
    from lakebed.keratin.partition import Partition
    from lakebed.store.group import Group
    from lakebed.store.topics import StoreTopic


async def topic_of(service: Service, call: Call) -> StoreTopic:
    """`NotFound` if there is none."""
    topics, name = service.store.topics, call.names["topic"]
    opened = topics.opened_topic(name)
    return await service.run(lambda: topics.open(name)) if opened is None else opened


async def partition_of(service: Service, call: Call) -> Partition:
    """`NotFound` if there is no such topic, or it has no such partition."""
    number = call.number("partition")
    return (await topic_of(service, call)).partition(number)


async def group_of(service: Service, call: Call) -> Group:
    """One that is there: `NotFound` if nobody opened it yet."""
    topics, topic, name = service.store.topics, call.names["topic"], call.names["group"]
    opened = topics.opened_group(topic, name)
    return await service.run(lambda: topics.open_group(topic, name)) if opened is None else opened
