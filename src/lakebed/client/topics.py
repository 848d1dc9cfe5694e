"""The topics of a remote store: the remote form of `lakebed.store.topics.StoreTopics`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import cast

from lakebed.api import topics as wire
from lakebed.client.caller import Caller
from lakebed.client.errors import BadAnswer
from lakebed.client.message_appender import MessageAppender
from lakebed.client.topic import RemoteTopic
from lakebed.store.read_plan import TopicRange


class RemoteTopics:
    """The topics of a remote store. Thread-safe."""

    def __init__(self, caller: Caller, producing: MessageAppender) -> None:
        self._caller = caller
        self._producing = producing

    def names(self) -> list[str]:
        return self._caller.call(wire.LIST_TOPICS).topics

    def create(
        self, name: str, *, partitions: int = 1, settings: Mapping[str, object] | None = None
    ) -> RemoteTopic:
        """Creates a topic. Raises `AlreadyExists` if there is a topic of that name."""
        body = wire.NewTopic(name=name, partitions=partitions, settings=_plain(settings))
        return self._topic(self._caller.call(wire.CREATE_TOPIC, body=body))

    def open(self, name: str) -> RemoteTopic:
        """Opens a topic. Raises `NotFound` if there is none of that name."""
        return self._topic(self._caller.call(wire.DESCRIBE_TOPIC, {"topic": name}))

    def ensure(
        self,
        name: str,
        *,
        partitions: int | None = None,
        settings: Mapping[str, object] | None = None,
    ) -> RemoteTopic:
        """Opens a topic, and creates it if there is none of that name.

        A new topic has `partitions` partitions, by default one, and the given settings. An existing
        topic keeps its own settings. Raises `InputError` if `partitions` is given and the topic
        exists with another number.
        """
        body = wire.EnsuredTopic(partitions=partitions, settings=_plain(settings))
        return self._topic(self._caller.call(wire.ENSURE_TOPIC, {"topic": name}, body=body))

    def configure(self, name: str, settings: Mapping[str, object]) -> None:
        """Changes the given settings of a topic, and keeps its others. The change takes effect when
        the topic is next opened."""
        body = wire.Configure(settings=_plain(settings))
        self._caller.call(wire.CONFIGURE_TOPIC, {"topic": name}, body=body)

    def delete(self, name: str) -> None:
        """Deletes a topic with its messages, groups and dead letters, permanently."""
        self._caller.call(wire.DELETE_TOPIC, {"topic": name})

    def advance(
        self,
        ranges: Sequence[TopicRange],
        *,
        max_messages: int | None,
        max_bytes: int | None,
    ) -> list[int]:
        """Returns, for each range of a partition, the offset up to which to read next.

        Reading each range up to its offset reads the oldest messages of all ranges together, at
        most `max_messages` and `max_bytes` (None means no limit), but at least one. So event time
        advances evenly in all ranges.
        """
        body = wire.AdvanceTopics(list(ranges), max_messages=max_messages, max_bytes=max_bytes)
        ends = self._caller.call(wire.ADVANCE_TOPICS, body=body).ends
        if len(ends) != len(ranges):
            raise BadAnswer(
                "advance_topics: the number of ranges in the response differs from the request"
            )
        return ends

    def _topic(self, state: wire.TopicState) -> RemoteTopic:
        return RemoteTopic(self._caller, self._producing, state)


def _plain(settings: Mapping[str, object] | None) -> wire.Settings:
    return cast("wire.Settings", dict(settings or {}))
