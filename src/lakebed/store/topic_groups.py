"""Reads the state of a consumer group from its files, even while another process writes it.

The writer occasionally merges a group's delta into a new snapshot, so a snapshot and a delta that
are read one after the other may not belong together. That is not damage: the files are read again.
Whether a lease or a delay has ended is judged by this process's wall clock, which may differ from
the writer's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from lakebed.base.clock import NS_PER_MS
from lakebed.base.errors import DataError, NotFound, UnknownVersion
from lakebed.base.files import Disk, PathLike
from lakebed.base.runner import Runner
from lakebed.keratin.paths import TopicPaths
from lakebed.keratin.read_only import ReadOnlyPartition
from lakebed.store.message_counts import MessageCounts
from lakebed.stroma.config import GroupConfig
from lakebed.stroma.description import GroupPartition, count_messages
from lakebed.stroma.format import BumpAckedUntil
from lakebed.stroma.paths import GroupName, GroupPaths, list_groups
from lakebed.stroma.ranges import merged
from lakebed.stroma.recovery import RecoveredGroup, load

_LOOKS = 5
_LOOK_AGAIN_NS = 5 * NS_PER_MS


def group_names(disk: Disk, root: PathLike, topic: str) -> list[str]:
    """Returns the sorted names of the groups of a topic, according to their files."""
    return sorted({name.group for name in list_groups(disk, root) if name.topic == topic})


class ReadOnlyGroup:
    """A consumer group of a store that is open read-only. Thread-safe.

    Every call reads the files again.
    """

    def __init__(
        self,
        topic: TopicPaths,
        name: str,
        *,
        partitions: Sequence[ReadOnlyPartition],
        disk: Disk,
        runner: Runner,
        config: GroupConfig,
        is_compacted: bool,
    ) -> None:
        """`config` has the number of deliveries after which a message becomes a dead letter."""
        self.name = name
        self.topic = topic.topic
        self._root = topic.root
        self._partitions = tuple(partitions)
        self._is_compacted = is_compacted
        self._disk = disk
        self._runner = runner
        # The order of keys only matters for leasing.
        self._config = replace(config, per_key_order=False)

    def lag(self) -> dict[int, int]:
        """Return how many messages are neither acked nor dead-lettered yet, by partition number."""
        return {number: described.lag for number, described in self.describe().items()}

    def describe(self) -> dict[int, GroupPartition]:
        """Return the group's state in each partition, with the damage of its files in `problems`.

        Raises `DataError` if the damage is so severe that the state cannot be determined.
        """
        return {partition.number: self._describe(partition) for partition in self._partitions}

    def unsettled(self, partition: ReadOnlyPartition) -> list[tuple[int, int]]:
        """Return the offset ranges `[start, end)` that are neither acked nor dead-lettered yet."""
        recovered, high_watermark = self._recover(partition)
        state = recovered.state
        return merged([*state.unsettled(), (state.end, max(state.end, high_watermark))])

    def _describe(self, partition: ReadOnlyPartition) -> GroupPartition:
        recovered, high_watermark = self._recover(partition)
        counts = MessageCounts(partition, is_compacted=self._is_compacted)
        state = recovered.state
        waiting, exhausted = count_messages(state)
        return GroupPartition(
            acked_until=state.base,
            looked_until=state.end,
            high_watermark=high_watermark,
            lag=min(
                state.unsettled_count + counts.count(state.end, high_watermark),
                counts.count(state.base, high_watermark),
            ),
            in_flight=state.in_flight,
            waiting=waiting,
            exhausted=exhausted,
            settled_ahead=state.settled_ahead,
            epoch=state.epoch,
            generation=recovered.generation,
            snapshot_bytes=recovered.snapshot_bytes,
            delta_bytes=recovered.delta_end,
            delta_events=recovered.event_count,
            unknown_events=recovered.unknown_count,
            flagged_events=recovered.flagged_count,
            problems=tuple(recovered.problems),
        )

    def _recover(self, partition: ReadOnlyPartition) -> tuple[RecoveredGroup, int]:
        """Returns the group's state in a partition as of now, and the high watermark."""
        recovered = self._load(partition.number)
        now_ms = self._runner.clock.wall_ns() // NS_PER_MS
        # Read after the group's files: the offsets in them are durable in the log by now.
        high_watermark, start = partition.high_watermark(), partition.start_offset()
        state = recovered.state
        if state.end > high_watermark:
            state.cut(high_watermark)
        if start > state.base:
            state.apply(BumpAckedUntil(start), now_ms)
        state.expire(now_ms)
        return recovered, high_watermark

    def _load(self, partition: int) -> RecoveredGroup:
        paths = GroupPaths(self._root, GroupName(self.topic, partition, self.name))
        return load_while_written(self._disk, paths, self._config, runner=self._runner)


def load_while_written(
    disk: Disk, paths: GroupPaths, config: GroupConfig, *, runner: Runner
) -> RecoveredGroup:
    """Loads a group's files of one partition, like `load`, while another process may write them.

    Files that look damaged, missing or inconsistent are read again a few times.
    """
    for looks_left in reversed(range(_LOOKS)):
        now_ms = runner.clock.wall_ns() // NS_PER_MS
        try:
            recovered = load(disk, paths, config, now_ms=now_ms)
            if not (recovered.damages or recovered.is_delta_missing) or not looks_left:
                return recovered
        except UnknownVersion:
            raise
        except (DataError, NotFound):
            if not looks_left:
                raise
        runner.sleep_ns(_LOOK_AGAIN_NS)
    raise AssertionError("the last attempt returns or raises")
