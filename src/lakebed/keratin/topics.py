"""All topics below one root: creates, opens and deletes them, and drives their partitions.

    topics = Topics(root, disk=disk, runner=runner)
    topic = topics.create("orders", partitions=3)

Whoever makes one holds the root's lock. Two tasks on the runner serve all partitions: one commits
what is due, the other looks after retention and what else can wait.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Mapping
from random import Random

from lakebed.base.damage_ledger import TOPICS, DamageLedger
from lakebed.base.errors import AlreadyExists, Busy, Closed, Corrupt, LakebedError, NotFound
from lakebed.base.files import Disk, PathLike
from lakebed.base.runner import Event, Runner
from lakebed.base.runner.step_driver import StepDriver
from lakebed.base.units import MIB
from lakebed.base.zero_fill import SpareBudget
from lakebed.keratin.config import TopicConfig
from lakebed.keratin.identity import (
    TopicIdentity,
    check_partition_count,
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
    """Thread-safe; but a topic is created, opened or deleted by one at a time."""

    def __init__(
        self,
        root: PathLike,
        *,
        disk: Disk,
        runner: Runner,
        config: TopicConfig | None = None,
        random: Random | None = None,
        is_pinned: Callable[[str, int, int, int], bool] | None = None,
        spare_budget: SpareBudget | None = None,
        damage: DamageLedger | None = None,
        make_topic: Callable[..., Topic] = Topic,
    ) -> None:
        """`is_pinned` tells, by topic, partition and offsets, what retention must leave alone;
        `spare_budget` is what may be zero-filled ahead of need, together with others;
        `damage` is where losses go on record; `make_topic` is called as `Topic` is."""
        self.root = os.fspath(root)
        self._disk = disk
        self._runner = runner
        self._config = config or TopicConfig()
        self._random = random or Random()
        self._is_pinned = is_pinned
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
        """All topics there are, open or not."""
        return topic_names(self._disk, self.root)

    def create(
        self, name: str, *, partitions: int = 1, settings: Mapping[str, object] | None = None
    ) -> Topic:
        """A new topic; `AlreadyExists` if there is one of that name."""
        paths = TopicPaths(self.root, name)
        check_partition_count(partitions)
        identity = new_identity(partitions, settings or {}, self._random)
        identity.config(self._config)  # on top of the store's own they must be good, too
        with self._claimed(name):
            check_topic_folder(self._disk, paths)
            if self._disk.exists(paths.identity):
                raise AlreadyExists(f"there is a topic {name} already")
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
                topic.partitions  # noqa: B018 - opens them: a new topic is whole, or not there
            except BaseException:
                self._close_topic(topic)
                with contextlib.suppress(LakebedError):
                    self._remove(paths)
                raise
            return self._keep(topic)

    def open(self, name: str) -> Topic:
        """The topic of that name, the same one each time; `NotFound` if there is none.

        A single partition is opened at once, several in the background: see `Topic`.
        """
        with self._mutex:
            topic = self._open.get(name)
        if topic is not None:
            return topic
        paths = TopicPaths(self.root, name)
        with self._claimed(name):
            # Somebody may have been faster.
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
        """Those that are open, by name."""
        with self._mutex:
            return dict(self._open)

    def opened_topic(self, name: str) -> Topic | None:
        """The topic if it is open; never waits."""
        with self._mutex:
            return self._open.get(name)

    def identity(self, name: str) -> TopicIdentity:
        """`NotFound` if there is none."""
        try:
            return load_identity(self._disk, TopicPaths(self.root, name))
        except NotFound:
            raise NotFound(f"{self.root}: there is no topic {name}") from None

    def configure(self, name: str, settings: Mapping[str, object]) -> None:
        """Change settings of a topic; they count from its next opening on."""
        paths, identity = TopicPaths(self.root, name), self.identity(name)
        merged = {**identity.settings, **settings}
        fresh = new_identity(identity.partition_count, merged, self._random)
        fresh.config(self._config)
        save_identity(
            self._disk,
            paths,
            TopicIdentity(
                topic_id=identity.topic_id,
                partition_count=identity.partition_count,
                settings=fresh.settings,
            ),
        )

    def delete(self, name: str) -> None:
        """Remove a topic with all its messages, for good; `NotFound` if there is none.

        One whose `topic.json` is lost or damaged can be removed, too.
        """
        paths = TopicPaths(self.root, name)
        with self._claimed(name):
            self._close_opened(name)
            if not topic_exists(self._disk, paths):
                raise NotFound(f"{self.root}: there is no topic {name}")
            self._remove(paths)
            self._forget_losses(name)

    def failures(self) -> dict[str, Exception]:
        """The open partitions whose background work fails at present, and why. It is tried again.

        Those that take no writes are not among them: see `Partition.failure`.
        """
        failing = self._flushing.failures() | self._upkeep.failures()
        return {
            partition.name: error
            for partition, error in failing.items()
            if partition.failure is None and not isinstance(error, Busy)
        }

    def close_topic(self, name: str) -> None:
        """Close a topic, if it is open; it may be opened again."""
        with self._claimed(name):
            self._close_opened(name)

    def close(self) -> None:
        """Close every topic. Idempotent."""
        with self._mutex:
            self._is_closed = True
            topics, self._open = list(self._open.values()), {}
        with contextlib.ExitStack() as stack:
            for topic in topics:
                stack.callback(self._close_topic, topic)
            stack.callback(self._flushing.stop)
            stack.callback(self._upkeep.stop)

    def _topic(self, paths: TopicPaths, identity: TopicIdentity) -> Topic:
        config = identity.config(self._config)
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
            # Made anew it would give out offsets again that were given out before.
            raise Corrupt(
                "the folder is missing: all messages of the partition are lost; lakebed topic "
                f"repair {paths.topic} makes it anew, empty",
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
        """Of a topic of that name that was deleted."""
        if self._damage is not None:
            self._damage.forget(TOPICS, name)

    def _remove(self, paths: TopicPaths) -> None:
        delete_topic_folder(self._disk, paths, token=f"{self._random.getrandbits(128):032x}")

    @contextlib.contextmanager
    def _claimed(self, name: str) -> Iterator[None]:
        """One at a time does anything to a topic; the others wait."""
        mine = self._claim(name)
        try:
            yield
        finally:
            with self._mutex:
                del self._busy[name]
            mine.set()

    def _claim(self, name: str) -> Event:
        while True:
            with self._mutex:
                if self._is_closed:
                    raise Closed(f"{self.root}: the topics are closed")
                busy = self._busy.get(name)
                if busy is None:
                    mine = self._busy[name] = self._runner.event()
                    return mine
            busy.wait()
