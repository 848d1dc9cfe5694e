"""A store that is open read-only, even while another process writes it.

It does not take the store's lock and repairs nothing. It writes nothing but pins, and the files
that SQLite readers share with the writer (`meta.db-wal`, `meta.db-shm`).
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

from lakebed.aof.archived_log import ArchivedLog
from lakebed.aof.read_only import ReadOnlyLog
from lakebed.aof.tiers.config import SharedTierConfig
from lakebed.aof.tiers.services import TierServices
from lakebed.base.damage_ledger import RecordedDamage
from lakebed.base.errors import BadName, Closed, InputError, NotFound
from lakebed.base.files import Disk, PathLike
from lakebed.base.runner import Runner, ThreadRunner
from lakebed.base.runner.open_registry import OpenRegistry
from lakebed.keratin.config import TopicConfig
from lakebed.kernels.disk import real_disk
from lakebed.seglake.config import SeglakeConfig
from lakebed.store import version
from lakebed.store.lake_object_store import ReadOnlyLakeObjectStore
from lakebed.store.logs import log_names, require_log
from lakebed.store.pins import Pins, id_source
from lakebed.store.settings import settings_of
from lakebed.stroma.config import GroupConfig

# Modules for topics and buckets are imported on first use: a program that reads only logs starts
# faster.
if TYPE_CHECKING:
    from lakebed.seglake.access_keys import ReadOnlyAccessKeys
    from lakebed.seglake.meta.connection import Connector
    from lakebed.seglake.model import BucketInfo
    from lakebed.seglake.read_only import ReadOnlyLake
    from lakebed.store.checks import Checks
    from lakebed.store.dead_letters import DeadLetter
    from lakebed.store.manifest_logs import ManifestLog
    from lakebed.store.read_only_bucket import ReadOnlyBucket
    from lakebed.store.read_only_topic import ReadOnlyTopic, ReadOnlyTopics
    from lakebed.store.read_plan import PlannedRead, WantedRead
    from lakebed.store.summary import LogSummary
    from lakebed.store.topic_summary import TopicSummary


class ReadOnlyStore:
    """A read-only store. Thread-safe.

    Opening it raises `NotFound` if the root does not exist, `UnknownVersion` or `Corrupt` if
    `store.json` was written by a newer version of Lakebed or is damaged, and `UnfinishedRestore` if
    a restore from a backup into the root was not finished.
    """

    def __init__(
        self,
        root: PathLike,
        *,
        tier_config: SharedTierConfig | None = None,
        disk: Disk | None = None,
        runner: Runner | None = None,
        connector: Connector | None = None,
        random: Random | None = None,
    ) -> None:
        """`tier_config` configures the access to Tier 2; see `Store.open`.

        If a `disk` is passed, `connector` must open the metadata database on that disk; without a
        `connector` the object store cannot be used then. If a `random` is passed, the ids of pins
        are drawn from it.
        """
        self.root = os.fspath(root)
        self.disk = disk or real_disk()
        check_root(self.disk, self.root)
        if not self.disk.is_folder(self.root):
            raise NotFound(f"{self.root}: no such root")
        self.version = version.load(self.disk, self.root)
        self.topic_config, self.group_config = TopicConfig(), GroupConfig()
        self.object_config = SeglakeConfig()
        if disk is None:
            settings = settings_of(Path(self.root), environment=os.environ)
            tier_config = tier_config or settings.config(SharedTierConfig)
            self.topic_config = settings.config(TopicConfig)
            self.group_config = settings.config(GroupConfig)
            self.object_config = settings.config(SeglakeConfig)
        own_runner = ThreadRunner()
        self.runner: Runner = own_runner if runner is None else runner
        self._close_runner = own_runner.close if runner is None else None
        has_lake = disk is None or connector is not None
        self.tiers = TierServices(
            self.root,
            disk=self.disk,
            runner=self.runner,
            config=tier_config,
            own_store=ReadOnlyLakeObjectStore(lambda: self.lake) if has_lake else None,
        )
        self.pins = Pins(
            self.disk,
            self.root,
            clock=self.runner.clock,
            is_writer=False,
            new_id=id_source(random),
        )
        self.damage = RecordedDamage(self.disk, self.root)
        self._logs = OpenRegistry(self._open_log, name="the logs", runner=self.runner)
        self._topics = OpenRegistry(self._open_topics, name="the topics", runner=self.runner)
        open_lake = partial(self._open_lake, connector, has_own_disk=disk is None)
        self._lakes = OpenRegistry(open_lake, name="the object store", runner=self.runner)
        self._is_closed = False

    def logs(self) -> list[str]:
        """Return the names of all logs."""
        return log_names(self.disk, self.root)

    def log(self, name: str) -> ReadOnlyLog:
        """Return the log, the same object each time; raises `NotFound` if there is no such log.

        If the log was deleted and created again, the new one is opened.
        """
        self._check_open()
        log = self._logs.get(name)
        if log.is_replaced():
            self._logs.forget(name, log)
            log.close()
            log = self._logs.get(name)
        return log

    def open_log(self, name: str) -> ReadOnlyLog:
        """Return the log, exactly as `log` does, because a read-only store creates no logs."""
        return self.log(name)

    def plan_logs(
        self, reads: Sequence[WantedRead], *, duration_ms: int, owner: str
    ) -> list[PlannedRead]:
        """Plan reads of logs: find their positions, pin the ranges and list their split points.

        The pins last for `duration_ms`; if it is 0, nothing is pinned.
        """
        from lakebed.store.read_planner import LogSource, log_index, plan_reads

        def source(name: str) -> LogSource:
            return LogSource(self.log(name), partial(log_index, self.disk))

        return plan_reads(reads, source, pins=self.pins, duration_ms=duration_ms, owner=owner)

    def log_summary(self, name: str) -> LogSummary:
        """Summarise a log from its files, without reading the records of sealed segments.

        Raises `NotFound` if there is no such log.
        """
        from lakebed.store.summary import summarise_log

        return summarise_log(self, name)

    def archived_log(self, name: str) -> ArchivedLog:
        """Open the log's archive, the segments that retention moved there, as a log to read.

        Raises `NotFound` if there is no such log.
        """
        self._check_open()
        paths = require_log(self.disk, self.root, name)
        return ArchivedLog(self.disk, paths, runner=self.runner)

    def manifest_log(self, name: str) -> ManifestLog | None:
        """Open a log's manifest log (the record of its segments and their tiers) for reading.

        Returns None if the log has none. See `Store.manifest_log`.
        """
        from lakebed.store.manifest_logs import manifest_log_of

        self._check_open()
        return manifest_log_of(self.disk, self.root, name)

    def tier2_of(self, log: str) -> str:
        """Return where the Tier 2 of a log is: a URL, or the path of a folder."""
        from lakebed.store.residency import tier2_address, tier2_place

        paths = require_log(self.disk, self.root, log)
        return tier2_place(self.root, tier2_address(self.disk, paths, default=self.tiers.address))

    @property
    def topics(self) -> ReadOnlyTopics:
        """The topics of the store, to list and open."""
        self._check_open()
        return self._topics.get("")

    def topic(self, name: str) -> ReadOnlyTopic:
        """Return the topic; raises `NotFound` if there is none. See `ReadOnlyTopics.open`."""
        return self.topics.open(name)

    def topic_summary(self, name: str) -> TopicSummary:
        """Summarise a topic from its files; raises `NotFound` if there is no such topic."""
        from lakebed.store.topic_summary import summarise_topic

        return summarise_topic(self.topic(name), defaults=self.topic_config)

    def dead_letters(
        self, topic: str, group: str, *, max_messages: int | None = None
    ) -> list[DeadLetter]:
        """Return the dead letters of a group (messages that were delivered too many times).

        Dead letters that were sent back to the topic are left out. They are in order of their
        partitions, oldest first. With `max_messages`, at most that many are returned.
        """
        from lakebed.store.topic_dead_letters import dead_letters_of

        return list(islice(dead_letters_of(self, topic, group), max_messages))

    def plan_topics(
        self, reads: Sequence[WantedRead], *, duration_ms: int, owner: str
    ) -> list[PlannedRead]:
        """Plan reads of topics: find their positions, pin the ranges and list their split points.

        The pins last for `duration_ms`; if it is 0, nothing is pinned.
        """
        from lakebed.store.read_planner import TopicSource, plan_reads, topic_index

        def source(name: str) -> TopicSource:
            return TopicSource(self.topics.open(name), partial(topic_index, self.disk))

        return plan_reads(reads, source, pins=self.pins, duration_ms=duration_ms, owner=owner)

    @property
    def lake(self) -> ReadOnlyLake:
        """The object store, read-only. If the root has no object store, it has no buckets."""
        self._check_open()
        return self._lakes.get("")

    def buckets(self) -> list[BucketInfo]:
        """Return all buckets, sorted by name."""
        return self.lake.buckets.list()

    def bucket(self, name: str) -> ReadOnlyBucket:
        """Return the bucket, read-only; raises `NoSuchBucket` if there is no such bucket."""
        from lakebed.store.read_only_bucket import ReadOnlyBucket

        self.lake.buckets.get(name)
        return ReadOnlyBucket(self.lake, name)

    def open_bucket(self, name: str) -> ReadOnlyBucket:
        """Return the bucket, exactly as `bucket` does."""
        return self.bucket(name)

    @property
    def keys(self) -> ReadOnlyAccessKeys:
        """The access keys of the store, without their secrets."""
        return self.lake.keys

    @property
    def maintenance(self) -> Checks:
        """Methods that verify logs, topics, objects or the whole store."""
        from lakebed.store.checks import Checks

        return Checks(self)

    def close(self) -> None:
        """Close the logs, the topics and the object store. Idempotent."""
        self._is_closed = True
        with contextlib.ExitStack() as stack:
            if self._close_runner is not None:
                stack.callback(self._close_runner)
            for lake in self._lakes.close():
                stack.callback(lake.close)
            for log in self._logs.close():
                stack.callback(log.close)
            for topics in self._topics.close():
                stack.callback(topics.close)

    def __enter__(self) -> ReadOnlyStore:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _open_log(self, name: str) -> ReadOnlyLog:
        require_log(self.disk, self.root, name)
        return ReadOnlyLog(self.root, name, disk=self.disk, runner=self.runner, services=self.tiers)

    def _open_topics(self, name: str) -> ReadOnlyTopics:
        from lakebed.store.read_only_topic import ReadOnlyTopics

        assert not name, "a store has only one set of topics"
        return ReadOnlyTopics(
            self.root,
            disk=self.disk,
            runner=self.runner,
            config=self.topic_config,
            group_config=self.group_config,
        )

    def _open_lake(
        self, connector: Connector | None, name: str, *, has_own_disk: bool
    ) -> ReadOnlyLake:
        from lakebed.seglake.meta.connection import connect_read_only
        from lakebed.seglake.read_only import ReadOnlyLake

        assert not name, "a store has only one object store"
        if connector is None and not has_own_disk:
            raise InputError(
                "the object store cannot be opened, because `disk` was passed without a `connector`"
            )
        return ReadOnlyLake(
            self.root,
            disk=self.disk,
            runner=self.runner,
            config=self.object_config,
            connector=connector or connect_read_only,
        )

    def _check_open(self) -> None:
        if self._is_closed:
            raise Closed(f"{self.root}: the store is closed")


def check_root(disk: Disk, root: str) -> None:
    """Raises `BadName` if the root exists and is not a folder."""
    if disk.exists(root) and not disk.is_folder(root):
        raise BadName(f"{root}: is a file; the root must be a folder")
