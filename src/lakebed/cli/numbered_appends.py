"""Appends to a topic of another program's store, under an id of their own, one after the other.

Another command that has the store open may end in the middle: then the store is opened here, or by
a third. By their numbers those messages are recognised that were stored before their answer was
lost, so whatever is in doubt is appended again, and stored once.
"""

from __future__ import annotations

from collections.abc import Callable

from lakebed.api.problems import Unreachable
from lakebed.api.surface import PendingAppend, Topic
from lakebed.base.errors import Closed, LakebedError
from lakebed.cli.topic_lines import Messages
from lakebed.client.producer_pool import OwnProducer, random_id
from lakebed.keratin.config import Ack

Reopen = Callable[[LakebedError], Topic]
"""The topic, after whoever had it open does not answer any more; or the error is raised."""


class NumberedAppends:
    """In order, one at a time. Not thread-safe."""

    def __init__(self, topic: Topic, reopen: Reopen) -> None:
        self._topic: Topic = topic
        self._reopen = reopen
        self._own = OwnProducer(random_id())

    def append(self, partition: int, messages: Messages, ack: Ack | None) -> PendingAppend:
        try:
            future = self._sent(partition, messages, ack)
        except (Unreachable, Closed) as error:
            self._topic = self._reopen(error)
            future = self._sent(partition, messages, ack)
        self._own.advance(self._topic.name, partition, len(messages.values))
        return future

    def _sent(self, partition: int, messages: Messages, ack: Ack | None) -> PendingAppend:
        """That nobody answers is raised."""
        future = self._send(partition, messages, ack)
        error = future.exception() if future.done() else None
        if isinstance(error, Unreachable):
            raise error
        return future

    def _send(self, partition: int, messages: Messages, ack: Ack | None) -> PendingAppend:
        return self._topic.partition(partition).append_batch(
            messages.values,
            keys=messages.keys,
            producer=self._own.at(self._topic.name, partition),
            ack=ack,
        )
