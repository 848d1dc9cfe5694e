"""The topics of a store with their consumer groups.

Connects Keratin, the engine of topics, and Stroma, the engine of groups, in one root.

topic = store.topic("orders", partitions=3)
base, count = topic.append_batch([b"..."]).result()
group = topic.group("billing")
"""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Any

from lakebed.base.clock import NS_PER_S
from lakebed.base.counters import Counters
from lakebed.base.damage_ledger import GROUPS, DamageLedger
from lakebed.base.errors import (
    BadName,
    Busy,
    Closed,
    DiskError,
    InputError,
    LakebedError,
    NoSpace,
    NotFound,
)
from lakebed.base.files import Disk, PathLike, fork_guard
from lakebed.base.runner import Event, Mutex, Runner
from lakebed.base.runner.step_driver import StepDriver
from lakebed.base.zero_fill import SpareBudget
from lakebed.keratin.backlog import PartitionRange, advance_partitions
from lakebed.keratin.config import TopicConfig
from lakebed.keratin.identity import TopicIdentity
from lakebed.keratin.partition import Partition
from lakebed.keratin.topic import Topic
from lakebed.keratin.topics import Topics
from lakebed.store.batch_commit import commit_batches
from lakebed.store.dead_letters import are_letters_of, dead_letter_topic, settings_for
from lakebed.store.group import Group
from lakebed.store.group_settings import GroupSettings
from lakebed.store.group_source import GroupSource
from lakebed.store.read_only_topic import ReadOnlyTopic
from lakebed.store.split_points import Bounds, topic_bounds
from lakebed.store.staged_batch import CommittedPartition, ReadObject, Staged
from lakebed.store.topic_follower import TopicFollower
from lakebed.stroma.config import GroupConfig
from lakebed.stroma.group import PartitionGroup
from lakebed.stroma.group_opener import clean_folder, damage_name, open_group
from lakebed.stroma.paths import GroupName, GroupPaths, list_groups
from lakebed.stroma.removal import finish_removal, finish_removals, remove_group

if TYPE_CHECKING:
    from lakebed.store.read_plan import TopicRange

_TRY_AGAIN_NS = 5 * NS_PER_S  # between attempts to open a topic for writing on a failing disk
_log = logging.getLogger(__name__)

REDRIVE_PREFIX = "lakebed-redrive:"  # begins the names of the groups that send dead letters back


class StoreTopic(Topic):
    """A topic with its consumer groups, open for writing. Thread-safe."""

    def __init__(
        self, owner: StoreTopics, name: str, identity: TopicIdentity, **opening: Any
    ) -> None:
        super().__init__(name, identity, **opening)
        self._owner = owner

    def bounds(self) -> list[Bounds]:
        """Return, for each partition, the range of offsets that can be read now."""
        return [
            topic_bounds(partition.start_offset(), partition.high_watermark())
            for partition in self.partitions
        ]

    def commit_batches(
        self, application: str, version: int, batches: Mapping[int, Sequence[Staged]]
    ) -> list[CommittedPartition]:
        """Append staged batches exactly once, even if the call is repeated.

        `batches` maps partition numbers to the batches to append there. See
        `lakebed.store.batch_commit`.
        """
        return commit_batches(
            self, application, version, batches, read_object=self._owner.read_object
        )

    def follow(self, starts: Mapping[int, int] | None = None) -> TopicFollower:
        """Return a follower, which returns the messages of partitions and waits for new ones.

        `starts` maps the partitions to follow to their first offsets; by default all partitions
        are followed, from their oldest messages on.
        """
        numbers = range(self.partition_count) if starts is None else starts
        views = {number: self.partition(number) for number in numbers}
        return TopicFollower(views, starts or {}, runner=self._owner.runner)

    def groups(self) -> list[str]:
        """Return the names of the topic's groups, open or not."""
        return self._owner.group_names(self.name)

    def group(self, name: str, *, config: GroupConfig | None = None) -> Group:
        """Open a consumer group, and create it if it does not exist; the same object each time.

        `config` is stored. It applies immediately if the group was not open, otherwise when the
        group is next opened. Without `config`, the stored settings apply, and the store's where the
        group has none of its own.
        """
        return self._owner.open_group_of(self, name, config, None)

    def group_with(self, name: str, config: GroupConfig, *, named: Collection[str]) -> Group:
        """Open a consumer group, and store only those settings of `config` that are in `named`.

        These are stored even if they equal the store's; all others in `config` must be the store's.
        Creates the group if it does not exist, and applies `config` when `group` would.
        """
        return self._owner.open_group_of(self, name, config, frozenset(named))

    def delete_group(self, name: str) -> None:
        """Delete a group and its acks. Raises `NotFound` if there is no such group."""
        self._owner.delete_group(self.name, name)


class StoreTopics:
    """All topics and groups of a store. Thread-safe. Each name has a single open object."""

    def __init__(
        self,
        root: PathLike,
        *,
        disk: Disk,
        runner: Runner,
        config: TopicConfig,
        group_config: GroupConfig,
        is_pinned: Callable[[str, int, int, int], bool] | None = None,
        pin_mutex: Mutex | None = None,
        spare_budget: SpareBudget | None = None,
        read_object: ReadObject | None = None,
        damage: DamageLedger | None = None,
        restored_ms: int = 0,
        random: Random | None = None,
    ) -> None:
        """Finishes interrupted deletions of topics and groups; opens nothing yet.

        The caller must hold the root's lock. `is_pinned`, `pin_mutex` and `spare_budget` are passed
        to `keratin.Topics`. `read_object` reads batches that are staged as objects. `restored_ms`
        is when the store was restored from a backup, or 0; leases from before that are refused.
        """
        self._root = root
        self._disk = disk
        self.runner = self._runner = runner
        self._config = config
        self._group_config = group_config
        self._settings = GroupSettings(disk, root, defaults=group_config)
        self.read_object = read_object
        self._damage = damage
        self._restored_ms = restored_ms
        self._random = random
        clean_folder(disk, root)
        self._topics = Topics(
            root,
            disk=disk,
            runner=runner,
            config=config,
            is_pinned=is_pinned,
            pin_mutex=pin_mutex,
            spare_budget=spare_budget,
            damage=damage,
            random=random,
            make_topic=partial(StoreTopic, self),
        )
        self._drive: StepDriver[PartitionGroup] = StepDriver(
            "stroma upkeep", runner, PartitionGroup.step
        )
        # The mutex guards everything below.
        self._mutex = runner.mutex()
        # Topics that could not be opened for writing, and the monotonic time of the next attempt.
        self._unwritable: dict[str, tuple[ReadOnlyTopic, int]] = {}
        self._busy: dict[str, Event] = {}  # by topic; set when the operation on it ends
        self._groups: dict[tuple[str, str], Group] = {}  # by topic and group
        # The stored settings of open groups, and which of them are a group's own.
        self._kept: dict[tuple[str, str], tuple[GroupConfig, frozenset[str] | None]] = {}
        self._is_closed = False
        self._process = fork_guard.generation()

    @property
    def group_config(self) -> GroupConfig:
        """The store's settings of groups; they apply where a group has no setting of its own."""
        return self._group_config

    def names(self) -> list[str]:
        return self._topics.names()

    def opened_topic(self, name: str) -> StoreTopic | None:
        """Return the topic if it is open, else None; never waits.

        Also returns None while another call creates, opens, configures, repairs or deletes the
        topic, or opens or deletes a group of it.
        """
        with self._mutex:
            if self._is_closed or name in self._busy:
                return None
        topic = self._topics.opened_topic(name)
        return None if topic is None else _with_groups(topic)

    def opened(self) -> tuple[list[Topic], list[Group]]:
        """Return the topics and groups that are open."""
        with self._mutex:
            groups = list(self._groups.values())
        return list(self._topics.opened().values()), groups

    def create(
        self, name: str, *, partitions: int = 1, settings: Mapping[str, object] | None = None
    ) -> StoreTopic:
        """Create a topic; raises `AlreadyExists` if there is a topic of that name."""
        with self._alone(name):
            return self._create(name, partitions=partitions, settings=settings)

    def open(self, name: str) -> StoreTopic:
        """Open an existing topic; raises `NotFound` if there is no such topic."""
        with self._alone(name):
            return _with_groups(self._topics.open(name))

    def open_to_read(
        self, name: str, *, partition: int | None = None
    ) -> StoreTopic | ReadOnlyTopic:
        """Open a topic for reading, and its partition `partition`, or by default all partitions.

        Raises `NotFound` if there is no such topic. Opening a topic normally writes to disk. If the
        disk is full or fails, a read-only view of the topic's files is returned, and a call a few
        seconds later tries again to open the topic.
        """
        now_ns = self._runner.clock.monotonic_ns()
        with self._mutex:
            unwritable, until_ns = self._unwritable.get(name, (None, 0))
        if unwritable is not None and now_ns < until_ns:
            return unwritable
        try:
            topic = self.opened_topic(name) or self.open(name)
            if partition is None:
                topic.partitions  # noqa: B018 - opens them
            else:
                topic.partition(partition)
        except (NoSpace, DiskError) as error:
            _log.warning("topic %s: read-only, because it cannot be opened: %s", name, error)
        else:
            self._forget_unwritable(name)
            return topic
        read_only = unwritable or ReadOnlyTopic(
            self._root,
            name,
            disk=self._disk,
            runner=self._runner,
            group_config=self._group_config,
            topic_config=self._config,
        )
        with self._mutex:
            read_only, _ = self._unwritable.get(name, (read_only, 0))
            self._unwritable[name] = (read_only, now_ns + _TRY_AGAIN_NS)
        return read_only

    def _forget_unwritable(self, name: str) -> None:
        with self._mutex:
            read_only, _ = self._unwritable.pop(name, (None, 0))
        if read_only is not None:
            read_only.close()

    @contextlib.contextmanager
    def before_opening(self, name: str) -> Iterator[Callable[[], StoreTopic]]:
        """Reserves a topic that is not open; yields a function that opens it.

        Until the `with` block ends, other callers that open the topic wait. Raises `Busy` if the
        topic is open, unless one of its partitions cannot be opened: then the topic is closed, so
        that the caller can repair it.
        """
        with self._alone(name):
            if self._topics.opened_topic(name) is not None:
                self._close_refused(name)
            yield lambda: _with_groups(self._topics.open(name))

    def _close_refused(self, name: str) -> None:
        """Closes a topic if one of its partitions cannot be opened; else raises `Busy`."""
        try:
            self._topics.open(name).partitions  # noqa: B018 - opens them
        except LakebedError:
            pass
        else:
            raise Busy(
                f"{name}: the topic is in use by the program that has the store open "
                f"(process {os.getpid()}): stop that program first"
            )
        self._close_groups(name)
        self._topics.close_topic(name)

    def ensure(
        self,
        name: str,
        *,
        partitions: int | None = None,
        settings: Mapping[str, object] | None = None,
    ) -> StoreTopic:
        """Open a topic, and create it with these settings if it does not exist.

        An existing topic keeps its settings. Raises `InputError` if `partitions` is given and the
        topic exists with another number.
        """
        with self._alone(name):
            try:
                topic = self._topics.open(name)
            except NotFound:
                count = 1 if partitions is None else partitions
                return self._create(name, partitions=count, settings=settings)
            actual = topic.partition_count
            if partitions not in (None, actual):
                raise InputError(
                    f"the topic {name} has {actual} partitions, not {partitions}; "
                    f"use {actual}, or leave the number of partitions out"
                )
            return _with_groups(topic)

    def configure(self, name: str, settings: Mapping[str, object]) -> None:
        with self._alone(name):
            self._topics.configure(name, settings)

    def delete(self, name: str) -> None:
        """Delete a topic with its messages, groups and dead letters. This cannot be undone.

        The dead-letter topic is kept if it cannot be opened, or if the first readable message of
        one of its partitions is not a dead letter of this topic.
        """
        with self._alone(name):
            self._close_groups(name)
            self._forget_unwritable(name)
            self._topics.delete(name)
            self._remove_groups(name)
        self._delete_letters(name)

    def advance(
        self, ranges: Sequence[TopicRange], *, max_messages: int | None, max_bytes: int | None
    ) -> list[int]:
        """Return, for each range, the offset up to which to read next.

        The offsets are chosen so that event time advances evenly in all ranges. `max_messages` and
        `max_bytes` limit what is read from all ranges together; None means no limit. At least one
        message is included, even if it is larger than `max_bytes`.
        """
        opened = [
            self.open_to_read(item.topic, partition=item.partition).partition(item.partition)
            for item in ranges
        ]
        partition_ranges = [
            PartitionRange(partition, item.start, item.end)
            for partition, item in zip(opened, ranges, strict=True)
        ]
        return advance_partitions(partition_ranges, messages_max=max_messages, bytes_max=max_bytes)

    def group_names(self, topic: str) -> list[str]:
        """Return the names of a topic's groups, open or not."""
        names = list_groups(self._disk, self._root)
        return sorted({name.group for name in names if name.topic == topic})

    def upkeep_failures(self) -> dict[str, Exception]:
        """Return the open partitions whose background work is failing, and the errors."""
        return self._topics.failures()

    def group_upkeep_failures(self) -> dict[str, Exception]:
        """Return the open groups whose background work is failing, and the errors.

        Each key is the topic, the partition and the name of the group.
        """
        failing = self._drive.failures()
        for group in self.opened()[1]:
            for part in group.opened_parts():
                if part.fold_failure is not None:
                    failing.setdefault(part, part.fold_failure)
        return {" ".join(map(str, part.name)): error for part, error in failing.items()}

    def opened_group(self, topic: str, group: str) -> Group | None:
        """Return the group if it is open, else None. Never waits for a group being opened."""
        with self._mutex:
            return None if self._is_closed else self._groups.get((topic, group))

    def open_group(self, topic: str, group: str) -> Group:
        """Open an existing group; raises `NotFound` if there is no such group."""
        opened_topic = self.open(topic)
        opened_group = self.opened_group(topic, group)
        if opened_group is None and group not in self.group_names(topic):
            raise NotFound(f"the topic {topic} has no group {group}")
        return opened_topic.group(group)

    def delete_group(self, topic: str, group: str) -> None:
        """Delete a group and its acks. Raises `NotFound` if there is no such group."""
        with self._alone(topic):
            if group not in self.group_names(topic):
                raise NotFound(f"the topic {topic} has no group {group}")
            self._close_groups(topic, group)
            remove_group(self._disk, self._root, topic=topic, group=group)
            self._forget_losses(topic, group)

    def close(self) -> None:
        """Close every group and every topic. Idempotent.

        Does nothing in a forked child, because the files and tasks belong to the parent.
        """
        if self._process != fork_guard.generation():
            return
        with self._mutex:
            self._is_closed = True
            operations = list(self._busy.values())
        for ended in operations:
            ended.wait()
        with self._mutex:
            names = {topic for topic, _ in self._groups}
            unwritable = list(self._unwritable)
        with contextlib.ExitStack() as stack:
            for name in unwritable:
                stack.callback(self._forget_unwritable, name)
            stack.callback(self._topics.close)
            stack.callback(self._drive.stop)
            for name in names:
                stack.callback(self._close_groups, name)

    def _create(
        self, name: str, *, partitions: int, settings: Mapping[str, object] | None
    ) -> StoreTopic:
        if name not in self._topics.names():
            # A crash may have left groups of a deleted topic of that name.
            self._remove_groups(name)
        return _with_groups(self._topics.create(name, partitions=partitions, settings=settings))

    @contextlib.contextmanager
    def _alone(self, topic: str) -> Iterator[None]:
        """Waits for the topic's other operations, so that only one at a time runs on a topic.

        Raises `Closed` after `close`.
        """
        fork_guard.check(self._process, str(self._root))
        ended = self._runner.event()
        while True:
            with self._mutex:
                if self._is_closed:
                    raise Closed(f"{self._root}: the topics are closed")
                running = self._busy.setdefault(topic, ended)
            if running is ended:
                break
            running.wait()
        try:
            yield
        finally:
            with self._mutex:
                del self._busy[topic]
            ended.set()

    # Groups.

    def open_group_of(
        self, topic: Topic, name: str, config: GroupConfig | None, named: frozenset[str] | None
    ) -> Group:
        key = (topic.name, name)
        with self._mutex:
            group = self._groups.get(key)
            is_kept = config is None or self._kept.get(key) == (config, named)
        if group is not None and group.topic is topic and is_kept:
            return group
        with self._alone(topic.name):
            self._check_current(topic)
            with self._mutex:
                group = self._groups.get(key)
            if group is None:
                existing = self._partitions_of(*key)
                if not existing:
                    self._settings.remove(*key)
                group = self._open_group(topic, name, config or self._settings.config(*key))
                # A new group must have its files now, and one with settings those of partition 0.
                is_incomplete = not existing or (config is not None and 0 not in existing)
                if is_incomplete or topic.partition_count == 1:
                    self._open_parts(group)
                else:
                    group.open_in_background()
                with self._mutex:
                    self._groups[key] = group
            if config is not None:
                self._settings.keep(*key, config, named=named)
                with self._mutex:
                    self._kept[key] = (config, named)
            return group

    def _partitions_of(self, topic: str, group: str) -> set[int]:
        """Returns the partitions in which a group has files."""
        names = list_groups(self._disk, self._root)
        return {name.partition for name in names if (name.topic, name.group) == (topic, group)}

    def _check_current(self, topic: Topic) -> None:
        """Raises `Closed` if `topic` was deleted, or was closed for a repair.

        This holds even if another topic of the same name is open by now.
        """
        current = None
        with contextlib.suppress(NotFound):
            current = self._topics.open(topic.name)
        if current is not topic:
            raise Closed(
                f"{topic.name}: the topic was deleted, or was closed for a repair and must be "
                "opened again"
            )

    def _open_group(self, topic: Topic, name: str, config: GroupConfig) -> Group:
        if config.delivery_count_max:
            dead_letter_topic(topic.name)  # fails now, not when the first dead letter is written
        finish_removal(self._disk, self._root, topic=topic.name, group=name)
        return Group(
            name,
            topic,
            partial(self._open_part, topic, name=name, config=config),
            runner=self._runner,
            delivery_count_max=config.delivery_count_max,
            restored_ms=self._restored_ms,
            dead_letters=partial(self._dead_letters, topic),
            redrive_group=partial(self._redrive_group, topic, name),
        )

    def _open_parts(self, group: Group) -> None:
        try:
            group.parts  # noqa: B018 - opens them
        except BaseException:
            self._close_parts(group)
            raise

    def _open_part(
        self, topic: Topic, partition: Partition, *, name: str, config: GroupConfig
    ) -> PartitionGroup:
        opened: list[PartitionGroup] = []
        counters = Counters()

        def wake() -> None:
            for part in opened:
                self._drive.add(part)

        part = open_group(
            self._disk,
            self._root,
            GroupName(topic.name, partition.number, name),
            source=GroupSource(partition, wants_keys=config.per_key_order, counters=counters),
            runner=self._runner,
            config=config,
            wake=wake,
            counters=counters,
            random=self._random,
            damage=self._damage,
        )
        opened.append(part)
        return part

    def _dead_letters(self, topic: Topic) -> Topic:
        name = dead_letter_topic(topic.name)
        try:
            return self.open(name)
        except NotFound:
            self._check_current(topic)
            count = topic.partition_count
            return self.ensure(name, partitions=count, settings=settings_for(topic.config))

    def _delete_letters(self, topic: str) -> None:
        """Deletes the dead-letter topic of a deleted topic.

        It is kept if the first readable message of a partition is not a dead letter of that topic,
        or if it cannot be opened. Errors are only logged, because the topic itself is already
        deleted.
        """
        try:
            letters = self.open_to_read(dead_letter_topic(topic))
            if are_letters_of(topic, letters.partitions):
                self.delete(letters.name)
        except (NotFound, BadName):
            pass  # the topic has no dead letters
        except LakebedError as error:
            _log.warning("topic %s: its dead letters cannot be deleted: %s", topic, error)

    def _redrive_group(self, topic: Topic, group: str) -> Group:
        letters = self.open(dead_letter_topic(topic.name))
        # Sending letters back may fail any number of times.
        plain = replace(self._group_config, delivery_count_max=0, per_key_order=False)
        return letters.group(REDRIVE_PREFIX + group, config=plain)

    def _close_groups(self, topic: str, group: str | None = None) -> None:
        """Closes one group of a topic, or by default all its groups."""
        with self._mutex:
            keys = [key for key in self._groups if key[0] == topic and group in (None, key[1])]
            closed = [self._groups.pop(key) for key in keys]
            for key in keys:
                self._kept.pop(key, None)
        with contextlib.ExitStack() as stack:
            for closed_group in closed:
                stack.callback(self._close_parts, closed_group)

    def _close_parts(self, group: Group) -> None:
        with contextlib.ExitStack() as stack:
            for part in group.close():
                stack.callback(part.close)
                stack.callback(self._drive.remove, part)

    def _remove_groups(self, topic: str) -> None:
        """Removes the groups of a deleted topic; a crash may leave some of their files."""
        for group in self.group_names(topic):
            self._forget_losses(topic, group)
        finish_removals(self._disk, self._root, topic=topic)
        for name in list_groups(self._disk, self._root):
            if name.topic == topic:
                GroupPaths(self._root, name).remove(self._disk)

    def _forget_losses(self, topic: str, group: str) -> None:
        """Removes the recorded losses of a deleted group."""
        if self._damage is not None:
            self._damage.forget(GROUPS, damage_name(topic, group))


def _with_groups(topic: Topic) -> StoreTopic:
    assert isinstance(topic, StoreTopic)
    return topic
