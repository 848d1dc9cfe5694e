"""Summarises a topic from its files: partitions, settings and groups."""

from __future__ import annotations

from dataclasses import dataclass

from lakebed.base.config import Value, field_names
from lakebed.keratin.config import TopicConfig
from lakebed.store.read_only_topic import ReadOnlyTopic


@dataclass(frozen=True, slots=True)
class PartitionSummary:
    """The summary of one partition."""

    partition: int
    start_offset: int
    high_watermark: int
    segments: int
    bytes: int  # of the segments' log files, up to the last record of each

    @property
    def offsets(self) -> int:
        """The number of offsets. There may be fewer messages, for example after compaction."""
        return self.high_watermark - self.start_offset


@dataclass(frozen=True, slots=True)
class SettingSummary:
    """One effective setting of the topic, and whether it is the topic's own."""

    name: str
    value: Value
    is_own: bool


@dataclass(frozen=True, slots=True)
class TopicSummary:
    """The summary of one topic."""

    name: str
    topic_id: str
    partitions: tuple[PartitionSummary, ...]
    settings: tuple[SettingSummary, ...]
    groups: tuple[str, ...]

    @property
    def offsets(self) -> int:
        return sum(partition.offsets for partition in self.partitions)

    @property
    def bytes(self) -> int:
        return sum(partition.bytes for partition in self.partitions)


def summarise_topic(topic: ReadOnlyTopic, *, defaults: TopicConfig) -> TopicSummary:
    """Summarises a topic; `defaults` are the store's settings for all topics."""
    return TopicSummary(
        name=topic.name,
        topic_id=topic.identity.topic_id,
        partitions=tuple(_summarise(topic, number) for number in range(topic.partition_count)),
        settings=tuple(_settings(topic, defaults)),
        groups=tuple(topic.groups()),
    )


def _summarise(topic: ReadOnlyTopic, number: int) -> PartitionSummary:
    partition = topic.partition(number)
    segments = partition.segments()
    # The start is read first, because retention only moves it forward.
    start = partition.start_offset()
    return PartitionSummary(
        partition=number,
        start_offset=start,
        high_watermark=max(start, partition.high_watermark()),
        segments=len(segments),
        bytes=sum(segment.end for segment in segments),
    )


def _settings(topic: ReadOnlyTopic, defaults: TopicConfig) -> list[SettingSummary]:
    identity = topic.identity
    config = identity.config(defaults, topic=topic.name)
    return [
        SettingSummary(name, getattr(config, name), name in identity.settings)
        for name in field_names(TopicConfig)
    ]
