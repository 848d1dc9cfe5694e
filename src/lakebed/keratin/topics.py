"""All topics of one root (the folder of a store): creates, opens, deletes and maintains them.

    topics = Topics(root, disk=disk, runner=runner)
    topic = topics.create("orders", partitions=3)

The caller must hold the root's lock. Two tasks on the runner serve all partitions: one commits
queued appends and syncs messages, the other runs retention, compaction and other upkeep.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from random import Random

from lakebed.base.damage_ledger import TOPICS, DamageLedger
from lakebed.base.errors import AlreadyExists, Busy, Closed, Corrupt, LakebedError, NotFound
from lakebed.base.files import Disk, PathLike
from lakebed.base.runner import Event, Mutex, Runner
from lakebed.base.runner.step_driver import StepDriver
from lakebed.base.units import MIB
from lakebed.base.zero_fill import SpareBudget
from lakebed.keratin.config import TopicConfig
from lakebed.keratin.identity import (
    TopicIdentity,
    check_partition_count,
    checked_settings,
    encode_identity,
    load_identity,
    new_identity,
    save_identity,
)
from lakebed.keratin.partition import Partition
from lakebed.keratin.paths import TopicPaths
from lakebed.keratin.topic import Topic
from lakebed.keratin.topic_folder import (
    check_topic_folder,
    create_topic_folder,
    delete_topic_folder,
    remove_leftovers,
    topic_exists,
    topic_names,
)

SPARE_BYTES_MAX = 256 * MIB


class Topics:
    """The topics of one root, the folder of a store. Thread-safe.

    Calls that create, open, configure, close or delete the same topic wait for each other.
    """

    def __init__(
        self,
        root: PathLike,
        *,
        disk: Disk,
        runner: Runner,
        config: TopicConfig | None = None,
        random: Random | None = None,
        is_pinned: Callable[[str, int, int, int], bool] | None = None,
        pin_mutex: Mutex | None = None,
        spare_budget: SpareBudget | None = None,
        damage: DamageLedger | None = None,
        make_topic: Callable[..., Topic] = Topic,
    ) -> None:
        """Prepares access to the topics of a root. The topics themselves are not opened yet.

        Removes what interrupted creations and deletions of topics left: see `remove_leftovers`.
        `is_pinned` takes a topic, a partition and a range of offsets, and returns whether retention
        and compaction must leave those messages alone. Retention holds `pin_mutex` from that call
        until the messages are removed. `spare_budget` limits the zero-filled bytes; it may be
        shared with other engines. Losses are recorded in `damage`. `make_topic` is called
        with the arguments of `Topic`.
        """
        self.root = os.fspath(root)
        self._disk = disk
        self._runner = runner
        self._config = config or TopicConfig()
        self._random = random or Random()
        self._is_pinned = is_pinned
        self._pin_mutex = pin_mutex or runner.mutex()
        self._damage = damage
        self._make_topic = make_topic
        self._spare_budget = spare_budget or SpareBudget(
            bytes_max=SPARE_BYTES_MAX, mutex=runner.mutex()
        )
        self._mutex = runner.mutex()
        self._open: dict[str, Topic] = {}  # guarded by _mutex, as are the next two
        self._busy: dict[str, Event] = {}
        self._is_closed = False
        self._flushing = StepDriver("keratin flush", runner, Partition.flush_step)
        self._upkeep = StepDriver("keratin upkeep", runner, Partition.upkeep_step)
        remove_leftovers(disk, self.root)

    def names(self) -> list[str]:
        """Returns the names of all topics, open or not."""
        return topic_names(self._disk, self.root)

    def create(
        self, name: str, *, partitions: int = 1, settings: Mapping[str, object] | None = None
    ) -> Topic:
        """Creates and opens a topic; raises `AlreadyExists` if a topic of that name exists.

        Raises `Corrupt` if that topic has lost its `topic.json`, or its folder is a symbolic link.
        """
        paths = TopicPaths(self.root, name)
        check_partition_count(partitions)
        identity = new_identity(partitions, settings or {}, self._random)
        identity.config(self._config, topic=name)  # validates them together with the store's
        with self._claimed(name):
            check_topic_folder(self._disk, paths)
            if self._disk.exists(paths.identity):
                raise AlreadyExists(f"topic {name} already exists")
            self._forget_losses(name)
            create_topic_folder(
                self._disk,
                paths,
                encode_identity(identity),
                topic_id=identity.topic_id,
                partition_count=partitions,
            )
            topic = self._topic(paths, identity)
            try:
                topic.partitions  # noqa: B018 - opens them all, or the topic is not created
            except BaseException:
                self._close_topic(topic)
                with contextlib.suppress(LakebedError):
                    self._remove(paths)
                raise
            return self._keep(topic)

    def open(self, name: str) -> Topic:
        """Opens a topic, or returns it if it is open; raises `NotFound` if it does not exist.

        If the topic has one partition, that partition is open when this returns. Several partitions
        are opened in the background: see `Topic`.
        """
        with self._mutex:
            topic = self._open.get(name)
        if topic is not None:
            return topic
        paths = TopicPaths(self.root, name)
        with self._claimed(name):
            # Another thread may have opened it in the meantime.
            topic = self._open.get(name)
            if topic is not None:
                return topic
            topic = self._topic(paths, self.identity(name))
            if topic.partition_count == 1:
                topic.partition(0)
            self._keep(topic)
        topic.open_in_background()
        return topic

    def opened(self) -> dict[str, Topic]:
        """Returns the open topics by name."""
        with self._mutex:
            return dict(self._open)

    def opened_topic(self, name: str) -> Topic | None:
        """Returns the topic if it is open, otherwise None; never waits."""
        with self._mutex:
            return self._open.get(name)

    def identity(self, name: str) -> TopicIdentity:
        """Returns the contents of `topic.json`; raises `NotFound` if the topic does not exist.

        Also raises the other errors of `load_identity`.
        """
        try:
            return load_identity(self._disk, TopicPaths(self.root, name))
        except NotFound:
            raise NotFound(f"{self.root}: there is no topic {name}") from None

    def configure(self, name: str, settings: Mapping[str, object]) -> None:
        """Changes the given settings of a topic, and keeps its other settings.

        The change takes effect the next time the topic is opened.
        """
        checked_settings(settings)  # first: wrong settings are an error for a missing topic, too
        paths = TopicPaths(self.root, name)
        with self._claimed(name):
            identity = self.identity(name)
            merged = checked_settings({**identity.settings, **settings})
            changed = replace(identity, settings=merged)
            changed.config(self._config, topic=name)
            save_identity(self._disk, paths, changed)

    def delete(self, name: str) -> None:
        """Deletes a topic with all its messages; raises `NotFound` if it does not exist.

        A topic whose `topic.json` is missing or damaged can be deleted too.
        """
        paths = TopicPaths(self.root, name)
        with self._claimed(name):
            self._close_opened(name)
            if not topic_exists(self._disk, paths):
                raise NotFound(f"{self.root}: there is no topic {name}")
            self._remove(paths)
            self._forget_losses(name)

    def failures(self) -> dict[str, Exception]:
        """Returns the errors of background work that failed and is retried, by partition name.

        Only open partitions are included. `Busy` errors are left out, and so are partitions that
        refuse writes: see `Partition.failure`.
        """
        failing = self._flushing.failures() | self._upkeep.failures()
        return {
            partition.name: error
            for partition, error in failing.items()
            if partition.failure is None and not isinstance(error, Busy)
        }

    def close_topic(self, name: str) -> None:
        """Closes a topic if it is open. It may be opened again later."""
        with self._claimed(name):
            self._close_opened(name)

    def close(self) -> None:
        """Closes every open topic, and stops the background work. Idempotent."""
        with self._mutex:
            self._is_closed = True
            topics, self._open = list(self._open.values()), {}
        with contextlib.ExitStack() as stack:
            for topic in topics:
                stack.callback(self._close_topic, topic)
            stack.callback(self._flushing.stop)
            stack.callback(self._upkeep.stop)

    def _topic(self, paths: TopicPaths, identity: TopicIdentity) -> Topic:
        config = identity.config(self._config, topic=paths.topic)
        return self._make_topic(
            paths.topic,
            identity,
            config=config,
            open_partition=lambda number: self._open_partition(paths, number, config),
            runner=self._runner,
        )

    def _keep(self, topic: Topic) -> Topic:
        with self._mutex:
            self._open[topic.name] = topic
        return topic

    def _open_partition(self, paths: TopicPaths, number: int, config: TopicConfig) -> Partition:
        segments = paths.partition(number).segments
        if not self._disk.is_folder(segments):
            # A new folder would assign offsets again that were already used.
            raise Corrupt(
                "the folder is missing, so all messages of the partition are lost; run 'lakebed "
                f"topic repair {paths.topic}' to create it again, empty",
                path=segments,
            )
        opened: list[Partition] = []

        def wake() -> None:
            for partition in opened:
                self._flushing.add(partition)

        partition = Partition(
            self._disk,
            paths.partition(number),
            self._runner,
            config=config,
            wake=wake,
            wake_upkeep=lambda: self._upkeep.add(partition),
            spare_budget=self._spare_budget,
            is_pinned=self._is_pinned,
            pin_mutex=self._pin_mutex,
            damage=self._damage,
        )
        opened.append(partition)
        try:
            partition.commits.resume()
        except BaseException:
            self._close_partition(partition)
            raise
        self._upkeep.add(partition)
        return partition

    def _close_opened(self, name: str) -> None:
        with self._mutex:
            topic = self._open.pop(name, None)
        if topic is not None:
            self._close_topic(topic)

    def _close_topic(self, topic: Topic) -> None:
        with contextlib.ExitStack() as stack:
            for partition in topic.close():
                stack.callback(self._close_partition, partition)

    def _close_partition(self, partition: Partition) -> None:
        with contextlib.ExitStack() as stack:
            stack.callback(partition.close)
            stack.callback(self._flushing.remove, partition)
            stack.callback(self._upkeep.remove, partition)

    def _forget_losses(self, name: str) -> None:
        """Removes the damage records of a deleted topic with that name."""
        if self._damage is not None:
            self._damage.forget(TOPICS, name)

    def _remove(self, paths: TopicPaths) -> None:
        delete_topic_folder(self._disk, paths, token=f"{self._random.getrandbits(128):032x}")

    @contextlib.contextmanager
    def _claimed(self, name: str) -> Iterator[None]:
        """Makes other threads that claim the same topic wait until the block ends."""
        claim_ended = self._claim(name)
        try:
            yield
        finally:
            with self._mutex:
                del self._busy[name]
            claim_ended.set()

    def _claim(self, name: str) -> Event:
        while True:
            with self._mutex:
                if self._is_closed:
                    raise Closed(f"{self.root}: the topics are closed")
                busy = self._busy.get(name)
                if busy is None:
                    claim_ended = self._busy[name] = self._runner.event()
                    return claim_ended
            busy.wait()
