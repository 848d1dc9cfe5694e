"""The topics of a store that is open read-only, even while another process writes it.

    with Store.open(root, read_only=True) as store:
        topic = store.topic("orders")
        for message in topic.partition(0).scan_from(0): ...

Nothing is written and no lock is taken.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from lakebed.base.errors import NotFound
from lakebed.base.files import Disk, PathLike
from lakebed.base.runner import Runner
from lakebed.base.runner.open_registry import OpenRegistry
from lakebed.keratin.backlog import PartitionRange, advance_partitions
from lakebed.keratin.config import TopicConfig
from lakebed.keratin.identity import TopicIdentity, load_identity
from lakebed.keratin.partitioner import partition_of
from lakebed.keratin.paths import TopicPaths
from lakebed.keratin.read_only import ReadOnlyPartition
from lakebed.keratin.topic_folder import topic_names
from lakebed.store.group_settings import GroupSettings
from lakebed.store.split_points import Bounds, topic_bounds
from lakebed.store.topic_follower import TopicFollower
from lakebed.store.topic_groups import ReadOnlyGroup, group_names
from lakebed.stroma.config import GroupConfig

if TYPE_CHECKING:
    from lakebed.store.read_plan import TopicRange


class ReadOnlyTopic:
    """A read-only topic. Thread-safe. Partitions are opened on first use.

    Opening it raises `NotFound` if there is no such topic.
    """

    def __init__(
        self,
        root: PathLike,
        name: str,
        *,
        disk: Disk,
        runner: Runner,
        group_config: GroupConfig,
        topic_config: TopicConfig | None = None,
    ) -> None:
        """`topic_config` and `group_config` are the store's settings of topics and groups.

        They apply where the topic or the group has no setting of its own.
        """
        self.paths = TopicPaths(root, name)
        self.name = name
        self.identity: TopicIdentity = require_topic(disk, self.paths)
        self.config = self.identity.config(topic_config or TopicConfig(), topic=name)
        self._disk = disk
        self._runner = runner
        self._group_settings = GroupSettings(disk, root, defaults=group_config)
        self._partitions = OpenRegistry(self._open_partition, name=f"topic {name}", runner=runner)

    @property
    def topic_id(self) -> str:
        """The topic's id. It changes if the topic is deleted and created again."""
        return self.identity.topic_id

    @property
    def partition_count(self) -> int:
        return self.identity.partition_count

    @property
    def partitions(self) -> tuple[ReadOnlyPartition, ...]:
        """All partitions, opened."""
        return tuple(map(self.partition, range(self.partition_count)))

    def partition(self, number: int) -> ReadOnlyPartition:
        """Return a partition, the same object each time; raises `NotFound` if there is none."""
        if not 0 <= number < self.partition_count:
            raise NotFound(
                f"{self.name}: there is no partition {number} (the topic has "
                f"{self.partition_count} partitions)"
            )
        return self._partitions.get(number)

    def bounds(self) -> list[Bounds]:
        """Return, for each partition, the range of offsets that can be read now."""
        return [
            topic_bounds(partition.start_offset(), partition.high_watermark())
            for partition in self.partitions
        ]

    def offsets_for_time(self, timestamp_ms: int) -> list[int]:
        """Return, for each partition, the offset of its first message from `timestamp_ms` or later.

        For a partition without such a message, it is the offset at the partition's end.
        """
        return [partition.offset_for_time(timestamp_ms) for partition in self.partitions]

    def partition_for(self, key: bytes) -> int:
        """Return the number of the partition to which messages with this key belong."""
        return partition_of(key, self.partition_count)

    def follow(self, starts: Mapping[int, int] | None = None) -> TopicFollower:
        """Return a follower, which returns the messages of partitions and waits for new ones.

        `starts` maps the partitions to follow to their first offsets; by default all partitions
        are followed, from their oldest messages on. Raises `InputError` if `starts` is empty.
        """
        numbers = range(self.partition_count) if starts is None else starts
        views = {number: self.partition(number) for number in numbers}
        return TopicFollower(views, starts or {}, runner=self._runner)

    def groups(self) -> list[str]:
        """Return the names of the topic's consumer groups."""
        return group_names(self._disk, self.paths.root, self.name)

    def group(self, name: str) -> ReadOnlyGroup:
        """Open a consumer group read-only; raises `NotFound` if there is no such group."""
        if name not in self.groups():
            raise NotFound(f"the topic {self.name} has no group {name}")
        return ReadOnlyGroup(
            self.paths,
            name,
            partitions=self.partitions,
            disk=self._disk,
            runner=self._runner,
            config=self._group_settings.config(self.name, name),
            is_compacted=self.config.compact,
        )

    def close(self) -> None:
        """Close the partitions. Idempotent."""
        for partition in self._partitions.close():
            partition.close()

    def _open_partition(self, number: int) -> ReadOnlyPartition:
        paths = self.paths.partition(number)
        return ReadOnlyPartition(paths, disk=self._disk, runner=self._runner)


class ReadOnlyTopics:
    """All topics of a store that is open read-only. Thread-safe."""

    def __init__(
        self,
        root: PathLike,
        *,
        disk: Disk,
        runner: Runner,
        config: TopicConfig,
        group_config: GroupConfig,
    ) -> None:
        """`config` and `group_config` are the store's settings of topics and groups.

        They apply where a topic or a group has no setting of its own.
        """
        self._root = root
        self._disk = disk
        self._runner = runner
        self._config = config
        self._group_config = group_config
        self._topics = OpenRegistry(self._open_topic, name="the topics", runner=runner)

    def names(self) -> list[str]:
        return topic_names(self._disk, self._root)

    def open(self, name: str) -> ReadOnlyTopic:
        """Return the topic, the same object each time; raises `NotFound` if there is no such topic.

        If the topic was deleted and created again, the new one is opened.
        """
        topic = self._topics.get(name)
        identity = require_topic(self._disk, topic.paths)
        if (identity.topic_id, identity.partition_count) != (topic.topic_id, topic.partition_count):
            self._topics.forget(name, topic)
            topic.close()
            topic = self._topics.get(name)
        return topic

    def advance(
        self, ranges: Sequence[TopicRange], *, max_messages: int | None, max_bytes: int | None
    ) -> list[int]:
        """Return, for each range, the offset up to which to read next.

        The offsets are chosen so that event time advances evenly in all ranges. `max_messages` and
        `max_bytes` limit what is read from all ranges together; None means no limit. At least one
        message is included, even if it is larger than `max_bytes`.
        """
        partition_ranges = [
            PartitionRange(self.open(item.topic).partition(item.partition), item.start, item.end)
            for item in ranges
        ]
        return advance_partitions(partition_ranges, messages_max=max_messages, bytes_max=max_bytes)

    def close(self) -> None:
        """Close all topics. Idempotent."""
        for topic in self._topics.close():
            topic.close()

    def _open_topic(self, name: str) -> ReadOnlyTopic:
        return ReadOnlyTopic(
            self._root,
            name,
            disk=self._disk,
            runner=self._runner,
            group_config=self._group_config,
            topic_config=self._config,
        )


def require_topic(disk: Disk, paths: TopicPaths) -> TopicIdentity:
    """Returns the identity of an existing topic. Raises `NotFound` if there is no such topic."""
    try:
        return load_identity(disk, paths)
    except NotFound:
        raise NotFound(f"{paths.root}: there is no topic {paths.topic}") from None
