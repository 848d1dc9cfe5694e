"""A topic of a store that another process has open: as `lakebed.store.topics.StoreTopic`."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from lakebed.api import admin
from lakebed.api import groups as wire_groups
from lakebed.api import topics as wire
from lakebed.base.errors import InputError, LakebedError, NotFound
from lakebed.base.layout import Buffer
from lakebed.client.append_result import AppendResult
from lakebed.client.batch_commit import commit_batches
from lakebed.client.caller import Caller
from lakebed.client.errors import BadAnswer
from lakebed.client.followers import RemoteTopicFollower
from lakebed.client.group import RemoteGroup
from lakebed.client.message_appender import Batch, MessageAppender
from lakebed.client.partition import RemotePartition
from lakebed.keratin.append_future import after_failure
from lakebed.keratin.append_requests import build_append
from lakebed.keratin.config import Ack, TopicConfig
from lakebed.keratin.headers import Header, Producer
from lakebed.keratin.partitioner import divided, partition_of
from lakebed.keratin.segment import Numbers
from lakebed.store.split_points import Bounds, topic_bounds
from lakebed.store.staged_batch import CommittedPartition, Staged
from lakebed.stroma.config import GroupConfig

_GROUPS_SECTION: Final = "stroma"  # of the settings


class RemoteTopic:
    """Thread-safe. `config` is as it was when the topic was opened."""

    def __init__(self, caller: Caller, producing: MessageAppender, state: wire.TopicState) -> None:
        self._caller = caller
        self._producing = producing
        self.name = state.name
        self.topic_id = state.topic_id  # of when it was opened; empty if the server tells none
        self.config = _config_of(state)
        self._bounds = [
            topic_bounds(each.start_offset, each.high_watermark) for each in state.partitions
        ]
        self._partitions = tuple(
            RemotePartition(caller, producing, state.name, number)
            for number in range(len(state.partitions))
        )

    @property
    def partition_count(self) -> int:
        return len(self._partitions)

    @property
    def partitions(self) -> Sequence[RemotePartition]:
        return self._partitions

    def partition(self, number: int) -> RemotePartition:
        """`NotFound` if there is none of that number."""
        if not 0 <= number < self.partition_count:
            raise NotFound(f"{self.name}: there is no partition {number}")
        return self._partitions[number]

    def bounds(self) -> list[Bounds]:
        """The offsets that each partition could be read at when the topic was opened."""
        return list(self._bounds)

    def offsets_for_time(self, timestamp_ms: int) -> list[int]:
        """The first message of every partition at or after that moment; else where it ends."""
        query = wire.OffsetQuery(timestamp_ms=timestamp_ms)
        found = self._caller.call(wire.OFFSETS_FOR_TIME, {"topic": self.name}, query=query)
        return found.offsets

    def append_batch(
        self,
        payloads: Sequence[Buffer | None],
        *,
        key: Buffer | None = None,
        partition: int | None = None,
        headers: Sequence[Sequence[Header]] | None = None,
        timestamps_ms: Numbers | None = None,
        producer: Producer | None = None,
        not_before_ms: int = 0,
        ack: Ack | None = None,
        timeout: float | None = None,
    ) -> AppendResult:
        """See `keratin.Topic`: the result is (base offset, count), and is there at once.

        Stored once, also if an answer is lost on the way and it is sent again.
        """
        if partition is None:
            if producer is not None and self.partition_count > 1 and key is None:
                raise InputError("a producer's messages need a partition or a key")
            partition = self._next() if key is None else self._partition_for(key)
        return self.partition(partition).append_batch(
            payloads,
            keys=None if key is None else [key] * len(payloads),
            headers=headers,
            timestamps_ms=timestamps_ms,
            producer=producer,
            not_before_ms=not_before_ms,
            ack=ack,
            timeout=timeout,
        )

    def append_keyed(
        self,
        messages: Iterable[tuple[Buffer | None, Buffer | None]],
        *,
        ack: Ack | None = None,
        timeout: float | None = None,
    ) -> list[AppendResult]:
        """Pairs of key and payload, each to its key's partition: one append for each of those.

        Those without a key go to the next partition in turn, together. What is wrong with any of
        them is found before one is sent. `PartlyAppended` if some were appended, when there was no
        room for others.
        """
        pairs = list(messages)
        batches = []
        for number, indexes in divided((key for key, _ in pairs), self.partition_count, self._next):
            keys = [pairs[index][0] for index in indexes]
            payloads = [pairs[index][1] for index in indexes]
            self._check(payloads, keys, ack)
            batches.append((number, Batch(payloads, keys=keys, ack=ack, timeout=timeout)))
        results: list[AppendResult] = []
        try:
            for number, batch in batches:
                results.append(self._producing.append(self.name, number, batch))
        except LakebedError as error:
            raise after_failure(error, results) from error
        return results

    def group(self, name: str, *, config: GroupConfig | None = None) -> RemoteGroup:
        """The consumer group of that name, made anew if need be.

        `config` is kept, and counts from the group's next opening on: at once, if it was not open.
        Without one the group has what was kept, or else that of the store.
        """
        settings = None if config is None else self._own_settings(config)
        state = self._caller.call(
            wire_groups.OPEN_GROUP,
            {"topic": self.name, "group": name},
            body=wire_groups.OpenGroup(settings=settings),
        )
        return RemoteGroup(self._caller, self.name, state.group)

    def follow(self, starts: Mapping[int, int] | None = None) -> RemoteTopicFollower:
        """The messages of all partitions, waiting for more when there are none.

        `starts` are where to begin, by partition, and which of them are followed; by default all
        of them from their oldest messages on.
        """
        numbers = range(self.partition_count) if starts is None else starts
        begun = starts or {}
        followers = {number: self.partition(number).follow(begun.get(number)) for number in numbers}
        return RemoteTopicFollower(followers, clock=self._caller.runner.clock)

    def groups(self) -> list[str]:
        """The names of its groups, open or not."""
        return self._caller.call(wire_groups.LIST_GROUPS, {"topic": self.name}).groups

    def delete_group(self, name: str) -> None:
        """Forget a group: what it acked, too. `NotFound` if there is none."""
        self._caller.call(wire_groups.DELETE_GROUP, {"topic": self.name, "group": name})

    def commit_batches(
        self, application: str, version: int, batches: Mapping[int, Sequence[Staged]]
    ) -> list[CommittedPartition]:
        """Append staged batches, by partition, once: see `lakebed.store.batch_commit`."""
        return commit_batches(self._caller, self.name, application, version, batches)

    def _check(
        self, payloads: list[Buffer | None], keys: list[Buffer | None], ack: Ack | None
    ) -> None:
        """As the server will."""
        chosen = self.config.ack_level if ack is None else ack
        build_append(payloads, config=self.config, ack=chosen, timestamps_ms=0, keys=keys)

    def _own_settings(self, config: GroupConfig) -> dict[str, Any]:
        """What differs from the store's, as it is embedded: what is named is kept, whatever the
        store's are later."""
        defaults = self._caller.call(admin.CONFIGURATION).sections.get(_GROUPS_SECTION, {})
        given = dataclasses.asdict(config)
        return {name: value for name, value in given.items() if value != defaults.get(name)}

    def _partition_for(self, key: Buffer) -> int:
        return partition_of(key, self.partition_count)

    def _next(self) -> int:
        return self._producing.next_partition(self.name, self.partition_count)


def _config_of(state: wire.TopicState) -> TopicConfig:
    """What a newer server tells beyond what is known here does not count here."""
    known = {one.name for one in dataclasses.fields(TopicConfig)}
    settings: dict[str, Any] = {
        name: value for name, value in state.settings.items() if name in known
    }
    try:
        return TopicConfig(**settings)
    except (TypeError, InputError) as error:
        raise BadAnswer(
            f"the settings of {state.name} are not as they should be: {error}"
        ) from None
