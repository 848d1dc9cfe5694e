# Made by `python -m tools.asynced` of `src/lakebed/client/topics.py`: edit that.
"""All topics of a store that another process has open: as `lakebed.store.topics.StoreTopics`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import cast

from lakebed.aio.client.caller import Caller
from lakebed.aio.client.message_appender import MessageAppender
from lakebed.aio.client.topic import AsyncTopic
from lakebed.api import topics as wire
from lakebed.client.errors import BadAnswer
from lakebed.store.read_plan import TopicRange


class AsyncTopics:
    """For one event loop."""

    def __init__(self, caller: Caller, producing: MessageAppender) -> None:
        self._caller = caller
        self._producing = producing

    async def names(self) -> list[str]:
        return (await self._caller.call(wire.LIST_TOPICS)).topics

    async def create(
        self, name: str, *, partitions: int = 1, settings: Mapping[str, object] | None = None
    ) -> AsyncTopic:
        """A new topic; `AlreadyExists` if there is one of that name."""
        body = wire.NewTopic(name=name, partitions=partitions, settings=_plain(settings))
        return self._topic(await self._caller.call(wire.CREATE_TOPIC, body=body))

    async def open(self, name: str) -> AsyncTopic:
        """`NotFound` if there is none."""
        return self._topic(await self._caller.call(wire.DESCRIBE_TOPIC, {"topic": name}))

    async def ensure(
        self,
        name: str,
        *,
        partitions: int | None = None,
        settings: Mapping[str, object] | None = None,
    ) -> AsyncTopic:
        """The topic, created if need be; `InputError` if it has another number of partitions."""
        body = wire.EnsuredTopic(partitions=partitions, settings=_plain(settings))
        return self._topic(await self._caller.call(wire.ENSURE_TOPIC, {"topic": name}, body=body))

    async def configure(self, name: str, settings: Mapping[str, object]) -> None:
        """They count from the topic's next opening on."""
        body = wire.Configure(settings=_plain(settings))
        await self._caller.call(wire.CONFIGURE_TOPIC, {"topic": name}, body=body)

    async def delete(self, name: str) -> None:
        """Remove a topic, its messages, its groups and its dead letters, for good."""
        await self._caller.call(wire.DELETE_TOPIC, {"topic": name})

    async def advance(
        self,
        ranges: Sequence[TopicRange],
        *,
        max_messages: int | None,
        max_bytes: int | None,
    ) -> list[int]:
        """Where to stop in each range so that event time advances in all of them together."""
        body = wire.AdvanceTopics(list(ranges), max_messages=max_messages, max_bytes=max_bytes)
        ends = (await self._caller.call(wire.ADVANCE_TOPICS, body=body)).ends
        if len(ends) != len(ranges):
            raise BadAnswer("advance_topics: the answer has another number of ranges")
        return ends

    def _topic(self, state: wire.TopicState) -> AsyncTopic:
        return AsyncTopic(self._caller, self._producing, state)


def _plain(settings: Mapping[str, object] | None) -> wire.Settings:
    return cast("wire.Settings", dict(settings or {}))
