"""A topic of a remote store: the remote form of `lakebed.store.topics.StoreTopic`."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from lakebed.api import admin
from lakebed.api import groups as wire_groups
from lakebed.api import topics as wire
from lakebed.base.errors import InputError, LakebedError, NotFound
from lakebed.base.layout import Buffer
from lakebed.client.append_result import AppendResult
from lakebed.client.caller import Caller
from lakebed.client.errors import BadAnswer
from lakebed.client.followers import RemoteTopicFollower
from lakebed.client.group import RemoteGroup
from lakebed.client.message_appender import Batch, MessageAppender, as_bytes
from lakebed.client.partition import RemotePartition
from lakebed.keratin.append_future import after_failure
from lakebed.keratin.append_requests import build_append
from lakebed.keratin.config import Ack, TopicConfig
from lakebed.keratin.headers import Header, Producer
from lakebed.keratin.partitioner import divided, partition_of
from lakebed.keratin.segment import Numbers
from lakebed.store.split_points import Bounds, topic_bounds
from lakebed.store.staged_batch import CommittedPartition, Staged, StagedFile, StagedObject
from lakebed.stroma.config import GroupConfig

_GROUPS_SECTION: Final = "stroma"  # of the settings


class RemoteTopic:
    """A topic of a remote store. Thread-safe.

    `config` has the settings that the topic had when this object was made.
    """

    def __init__(self, caller: Caller, producing: MessageAppender, state: wire.TopicState) -> None:
        self._caller = caller
        self._producing = producing
        self.name = state.name
        self.topic_id = state.topic_id  # empty if the server does not report it
        self.config = _config_of(state)
        self._bounds = [
            topic_bounds(partition.start_offset, partition.high_watermark)
            for partition in state.partitions
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
        """Returns the partition with that number. Raises `NotFound` if there is none."""
        if not 0 <= number < self.partition_count:
            raise NotFound(f"{self.name}: there is no partition {number}")
        return self._partitions[number]

    def bounds(self) -> list[Bounds]:
        """Returns the range of readable offsets of each partition, as it was when this object was
        made."""
        return list(self._bounds)

    def offsets_for_time(self, timestamp_ms: int) -> list[int]:
        """Returns, for each partition, the offset of the first message whose timestamp is
        `timestamp_ms` or later; the high watermark if there is none."""
        query = wire.OffsetQuery(timestamp_ms=timestamp_ms)
        result = self._caller.call(wire.OFFSETS_FOR_TIME, {"topic": self.name}, query=query)
        return result.offsets

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
        """Appends messages to one partition: `partition` if given, else the partition of `key`,
        else the next in turn. All messages get the same `key`.

        Waits for the acknowledgement. `result()` of the returned value returns the offset of the
        first message and the number of messages, or raises the error. The messages are stored only
        once, even if a response is lost and the client sends them again.
        """
        if partition is None:
            if producer is not None and self.partition_count > 1 and key is None:
                raise InputError(
                    f"{self.name}: an append with a producer needs a partition or a key, because "
                    "the topic has several partitions"
                )
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
        """Appends (key, payload) pairs, each to the partition of its key; one append per partition.

        All pairs without a key go to one partition, the next in turn. All pairs are validated
        before any of them is appended. If a partition refuses its append, for example because its
        queue is full, the remaining partitions get none, and the call raises `PartlyAppended` if
        earlier appends succeeded, otherwise the error.
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
        """Returns the consumer group of that name, and creates it if there is none.

        `config` is stored, and takes effect when the group is next opened: by this call, if the
        group is not open. Without `config` the group keeps its stored configuration, or uses the
        store's default.
        """
        settings = None if config is None else self._own_settings(config)
        state = self._caller.call(
            wire_groups.OPEN_GROUP,
            {"topic": self.name, "group": name},
            body=wire_groups.OpenGroup(settings=settings),
        )
        return RemoteGroup(self._caller, self.name, state.group)

    def follow(self, starts: Mapping[int, int] | None = None) -> RemoteTopicFollower:
        """Iterates over the messages of several partitions, and waits for new messages.

        `starts` maps each partition to the offset to start at; partitions that it does not name are
        not read. By default all partitions are read from their oldest messages.
        """
        numbers = range(self.partition_count) if starts is None else starts
        offsets = starts or {}
        followers = {
            number: self.partition(number).follow(offsets.get(number)) for number in numbers
        }
        return RemoteTopicFollower(followers, clock=self._caller.runner.clock)

    def groups(self) -> list[str]:
        """Lists the names of the topic's consumer groups."""
        return self._caller.call(wire_groups.LIST_GROUPS, {"topic": self.name}).groups

    def delete_group(self, name: str) -> None:
        """Deletes a group and its record of acknowledged messages. Raises `NotFound` if there is no
        such group."""
        self._caller.call(wire_groups.DELETE_GROUP, {"topic": self.name, "group": name})

    def commit_batches(
        self, application: str, version: int, batches: Mapping[int, Sequence[Staged]]
    ) -> list[CommittedPartition]:
        """Appends staged batches to their partitions exactly once: nothing is appended to a
        partition that already has this or a higher `version` of the `application`.

        See `lakebed.store.batch_commit`.
        """
        partitions = [
            wire.StagedPartition(
                partition=number, batches=[_staged_batch(batch) for batch in staged]
            )
            for number, staged in sorted(batches.items())
        ]
        body = wire.BatchCommit(application=application, version=version, partitions=partitions)
        return self._caller.call(wire.COMMIT_BATCHES, {"topic": self.name}, body=body).partitions

    def _check(
        self, payloads: list[Buffer | None], keys: list[Buffer | None], ack: Ack | None
    ) -> None:
        """Checks the arguments of an append as the server does. Raises `InputError` if one is not
        valid."""
        chosen = self.config.ack_level if ack is None else ack
        build_append(payloads, config=self.config, ack=chosen, timestamps_ms=0, keys=keys)

    def _own_settings(self, config: GroupConfig) -> dict[str, Any]:
        """Returns the settings in `config` that differ from the store's defaults.

        The group keeps them, even if the store's defaults change later.
        """
        defaults = self._caller.call(admin.CONFIGURATION).sections.get(_GROUPS_SECTION, {})
        settings = dataclasses.asdict(config)
        return {name: value for name, value in settings.items() if value != defaults.get(name)}

    def _partition_for(self, key: Buffer) -> int:
        return partition_of(key, self.partition_count)

    def _next(self) -> int:
        return self._producing.next_partition(self.name, self.partition_count)


def _staged_batch(staged: Staged) -> wire.StagedBatch:
    if isinstance(staged, StagedFile):
        # The server may have another working directory.
        return wire.StagedBatch(path=os.path.abspath(staged.path))
    if isinstance(staged, StagedObject):
        return wire.StagedBatch(bucket=staged.bucket, key=staged.key)
    try:
        return wire.StagedBatch(data=as_bytes(staged))
    except (TypeError, BufferError):
        raise InputError(
            "a staged batch must be bytes, a StagedFile or a StagedObject, not "
            f"{type(staged).__name__}"
        ) from None


def _config_of(state: wire.TopicState) -> TopicConfig:
    """Returns the topic's configuration, without settings that only a newer server knows."""
    known_names = {field.name for field in dataclasses.fields(TopicConfig)}
    settings: dict[str, Any] = {
        name: value for name, value in state.settings.items() if name in known_names
    }
    try:
        return TopicConfig(**settings)
    except (TypeError, InputError) as error:
        raise BadAnswer(
            f"{state.name}: the settings in the response are not valid: {error}"
        ) from None
