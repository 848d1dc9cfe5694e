"""A store that is open for writing. Only one process at a time can have it open: it holds the lock.

The main files and folders of a store:

    <root>/lakebed.toml  lakebed.lock  lakebed.sock  store.json  pins/  quarantine/
           aof/<log>/  topics/<topic>/<partition>/  groups/
           objects/{segments,manifests}/  meta.db

The `AofManager` takes the lock, so a store and a separate `AofManager` cannot have the same root
open at the same time. Nothing is created in a root whose `store.json` is damaged, or was written by
a newer version of Lakebed.
"""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from random import Random
from typing import (
    TYPE_CHECKING,
    Any,
    Literal,
    Protocol,
    Self,
    TypedDict,
    Unpack,
    overload,
)

from lakebed.aof.config import AofConfig, ManagerConfig
from lakebed.aof.log import Aof
from lakebed.aof.manager import AofManager
from lakebed.aof.paths import LogPaths
from lakebed.aof.read_only import ReadOnlyLog
from lakebed.aof.tiers.config import SharedTierConfig
from lakebed.aof.tiers.migration import MigrationReport
from lakebed.base.clock import NS_PER_MS, NS_PER_S
from lakebed.base.counters import Snapshot
from lakebed.base.damage_ledger import LOGS, OBJECTS, QUARANTINE_NAME, DamageLedger, Loss
from lakebed.base.errors import Closed, DiskError, InputError, LakebedError, NoSpace, NotFound
from lakebed.base.files import Disk, PathLike, make_folders
from lakebed.base.progress import Progress, no_progress
from lakebed.base.runner import Runner, ThreadRunner
from lakebed.base.runner.open_registry import OpenRegistry
from lakebed.keratin.config import TopicConfig
from lakebed.keratin.partition import Partition
from lakebed.keratin.topic_folder import topic_names
from lakebed.kernels.disk import real_disk
from lakebed.seglake.config import SeglakeConfig
from lakebed.seglake.model import BucketInfo, Versioning
from lakebed.seglake.paths import LakePaths
from lakebed.seglake.segment_id import segment_path
from lakebed.store import version
from lakebed.store.configuration import printable_settings, sections_of
from lakebed.store.counters import PartCounters, engine_counts, engine_values
from lakebed.store.failures import (
    GROUP_UPKEEP,
    LOG_UPKEEP,
    OBJECT_UPKEEP,
    PARTITION_UPKEEP,
    FailedPart,
    engine_failures,
)
from lakebed.store.lake_object_store import BUCKET as TIER2_BUCKET
from lakebed.store.lake_object_store import LakeObjectStore
from lakebed.store.logs import log_names, require_log
from lakebed.store.maintenance import Maintenance
from lakebed.store.pins import FOLDER_NAME as PINS_NAME
from lakebed.store.pins import Pins, id_source
from lakebed.store.read_only import ReadOnlyStore, check_root
from lakebed.store.settings import aof_config, settings_of
from lakebed.store.store_state import StoreState
from lakebed.store.topics import StoreTopic, StoreTopics
from lakebed.stroma.config import GroupConfig
from lakebed.stroma.group import PartitionGroup
from lakebed.version import VERSION as RELEASE

# Imported on first use: a program that only writes logs needs no SQLite.
if TYPE_CHECKING:
    from apsw import Connection

    from lakebed.seglake.access_keys import AccessKeys
    from lakebed.seglake.lake import Lake
    from lakebed.seglake.meta.connection import Connector
    from lakebed.seglake.meta.rows import Totals
    from lakebed.seglake.segment_walk import Damage
    from lakebed.store.bucket import Bucket
    from lakebed.store.dead_letters import DeadLetter
    from lakebed.store.manifest_logs import ManifestLog
    from lakebed.store.read_plan import PlannedRead, WantedRead
    from lakebed.store.summary import LogSummary
    from lakebed.store.topic_summary import TopicSummary

_TRY_AGAIN_NS = 5 * NS_PER_S  # between attempts to open a log for writing on a failing disk
_log = logging.getLogger(__name__)


class StoreOptions(TypedDict, total=False):
    """The keyword arguments of `Store.open`."""

    config: AofConfig | None  # of the logs
    topic_config: TopicConfig | None  # settings that a topic does not set itself
    group_config: GroupConfig | None  # settings that a group does not set itself
    object_config: SeglakeConfig | None  # of the object store
    tier_config: SharedTierConfig | None  # tier settings that all logs share, with Tier 2's address
    disk: Disk | None  # used instead of the real disk, for example by a simulation
    runner: Runner | None  # runs the background work; by default in threads of this process
    connector: Connector | None  # opens the metadata database; needed for buckets on a `disk`
    random: Random | None  # source of ids and delays; a simulation passes one with a seed


class Closable(Protocol):
    def close(self) -> None: ...


class _OpenThings(TypedDict):
    """The logs, partitions, groups and object store that are open."""

    logs: dict[str, Aof]
    partitions: list[Partition]
    groups: list[PartitionGroup]
    lake: Lake | None


class Store:
    """A store that is open for writing: its lock, logs, topics, buckets and pins. Thread-safe."""

    @overload
    @classmethod
    def open(
        cls,
        root: PathLike,
        *,
        read_only: Literal[False] = False,
        **options: Unpack[StoreOptions],
    ) -> Self: ...

    @overload
    @classmethod
    def open(
        cls, root: PathLike, *, read_only: Literal[True], **options: Unpack[StoreOptions]
    ) -> ReadOnlyStore: ...

    @classmethod
    def open(
        cls, root: PathLike, *, read_only: bool = False, **options: Unpack[StoreOptions]
    ) -> Self | ReadOnlyStore:
        """Open a store for writing, and create it if it does not exist; or open it read-only.

        Opening for writing raises `Locked` if the store is already open for writing, in this
        process or another. Opening read-only raises `NotFound` if the root does not exist.

        Configurations that are not passed come from `lakebed.toml` and the environment; if a `disk`
        is passed, they are the defaults. If `config` is passed, the settings of `[aof_manager]` are
        the defaults too. Of the passed configurations, a read-only store uses only `tier_config`.
        """
        disk, connector = options.get("disk"), options.get("connector")
        tier_config, runner = options.get("tier_config"), options.get("runner")
        if read_only:
            return ReadOnlyStore(
                root,
                tier_config=tier_config,
                disk=disk,
                runner=runner,
                connector=connector,
                random=options.get("random"),
            )
        check_root(disk or real_disk(), os.fspath(root))
        version.load(disk or real_disk(), root)  # before `lakebed.toml`, which may be half restored
        config, manager_config = options.get("config"), ManagerConfig()
        topic_config, group_config = options.get("topic_config"), options.get("group_config")
        object_config = options.get("object_config")
        if disk is None:
            settings = settings_of(Path(root), environment=os.environ)
            tier_config = tier_config or settings.config(SharedTierConfig)
            topic_config = topic_config or settings.config(TopicConfig)
            group_config = group_config or settings.config(GroupConfig)
            object_config = object_config or settings.config(SeglakeConfig)
            if config is None:
                config = aof_config(settings)
                manager_config = settings.config(ManagerConfig)
        return cls(
            root,
            config=config or AofConfig(),
            manager_config=manager_config,
            topic_config=topic_config or TopicConfig(),
            group_config=group_config or GroupConfig(),
            object_config=object_config or SeglakeConfig(),
            tier_config=tier_config or SharedTierConfig(),
            disk=disk,
            runner=runner,
            connector=connector,
            random=options.get("random"),
        )

    def __init__(
        self,
        root: PathLike,
        *,
        config: AofConfig,
        manager_config: ManagerConfig,
        topic_config: TopicConfig,
        group_config: GroupConfig,
        object_config: SeglakeConfig,
        tier_config: SharedTierConfig,
        disk: Disk | None,
        runner: Runner | None,
        connector: Connector | None,
        random: Random | None,
    ) -> None:
        """Opens a store for writing. Programs call `open` instead."""
        self.root = os.fspath(root)
        self._open_read_only = partial(
            ReadOnlyStore,
            self.root,
            tier_config=tier_config,
            disk=disk,
            runner=runner,
            connector=connector,
            random=random,
        )
        if disk is None:
            disk, connector = real_disk(), connector or _connect
        self.disk = disk
        self.config = config
        self.tier_config = tier_config
        configs = (manager_config, tier_config, topic_config, group_config, object_config)
        self._sections = sections_of(config, *configs)
        _refuse_newer(disk, self.root, with_metadata=connector is _connect)
        self._random = random
        self._is_closed = False
        self._is_lake_closed = False
        with contextlib.ExitStack() as undo:
            if runner is None:
                runner = ThreadRunner()
                undo.callback(runner.close)
            self.runner: Runner = runner
            self._pin_mutex = runner.mutex()
            self.pins = Pins(
                disk,
                self.root,
                clock=runner.clock,
                is_writer=True,
                new_id=id_source(random),
                mutex=self._pin_mutex,
            )
            self.pins.remove_temporaries()
            open_lake = partial(self._open_lake, object_config, connector)
            self._lakes = OpenRegistry(open_lake, name="the object store", runner=runner)
            undo.callback(
                self._close_lake
            )  # runs after the logs close, which may have Tier 2 there
            tier2 = None if connector is None else LakeObjectStore(partial(self._lakes.get, ""))
            self._manager = AofManager(
                self.root,
                config=config,
                manager_config=manager_config,
                tier_config=tier_config,
                own_store=tier2,
                disk=disk,
                runner=runner,
                is_pinned=self.pins.covers,
                pin_mutex=self._pin_mutex,
                on_lost=self._record_log_losses,
                random=random,
            )
            undo.callback(self._manager.close)
            now_ms = runner.clock.wall_ns() // NS_PER_MS
            self.opened_ms = now_ms
            self.version = version.ensure(disk, self.root, now_ms=now_ms, program=RELEASE)
            for name in (PINS_NAME, QUARANTINE_NAME):
                folder = os.path.join(self.root, name)
                if not disk.is_folder(folder):
                    make_folders(disk, folder)
            self.pins.active()  # removes expired pins
            self.damage = DamageLedger(disk, self.root, runner=runner)
            self._logs = OpenRegistry(self._manager.open, name="the logs", runner=runner)
            # Logs that could not be opened for writing, and the monotonic time of the next attempt.
            # Guarded by the mutex below.
            self._unwritable: dict[str, tuple[ReadOnlyLog, int]] = {}
            self._unwritable_mutex = runner.mutex()
            undo.callback(self._close_unwritable)
            open_topics = partial(self._open_topics, topic_config, group_config)
            self._topics = OpenRegistry(open_topics, name="the topics", runner=runner)
            undo.callback(self._close_topics)
            self._companion: Closable | None = None
            self._undo = undo.pop_all()

    def accompany(self, companion: Closable) -> None:
        """Register the server of this store's socket; `close` closes it before everything else."""
        self._companion = companion

    @property
    def is_open(self) -> bool:
        return not self._is_closed

    def logs(self) -> list[str]:
        """Return the names of all logs, open or not."""
        return log_names(self.disk, self.root)

    def log(self, name: str) -> Aof:
        """Open a log for writing, and create it if it does not exist.

        Returns the same object each time, until that is closed.
        """
        if self._is_closed:
            raise Closed(f"{self.root}: the store is closed")
        log = self._logs.get(name)
        if log.is_closed and not self._is_closed:
            self._logs.forget(name, log)
            log = self._logs.get(name)
        return log

    def open_log(self, name: str) -> Aof:
        """Open an existing log for writing; raises `NotFound` if there is no such log."""
        if not self.disk.is_folder(LogPaths(self.root, name).segments):
            raise NotFound(f"there is no log {name}; `Store.log` creates it")
        return self.log(name)

    def log_summary(self, name: str) -> LogSummary:
        """Summarise a log from its files, without opening it for writing.

        The records of sealed segments are not read. Raises `NotFound` if there is no such log.
        """
        with self.open_read_only() as reading:
            return reading.log_summary(name)

    def open_log_to_read(self, name: str) -> Aof | ReadOnlyLog:
        """Open a log for reading; raises `NotFound` if there is no such log.

        Opening a log normally writes to disk. If the disk is full or fails, a read-only view of the
        log's files is returned, and a call a few seconds later tries again to open the log.
        """
        now_ns = self.runner.clock.monotonic_ns()
        with self._unwritable_mutex:
            read_only, until_ns = self._unwritable.get(name, (None, 0))
        if read_only is not None and now_ns < until_ns:
            return read_only
        try:
            log = self.open_log(name)
        except (NoSpace, DiskError) as error:
            _log.warning("log %s: read-only, because it cannot be opened: %s", name, error)
        else:
            self._close_unwritable(name)
            return log
        opened = read_only or self._manager.open_read_only(name)
        with self._unwritable_mutex:
            opened, _ = self._unwritable.get(name, (opened, 0))
            self._unwritable[name] = (opened, now_ns + _TRY_AGAIN_NS)
        return opened

    def _close_unwritable(self, name: str | None = None) -> None:
        """Closes the read-only view of a log, or the views of all logs."""
        with self._unwritable_mutex:
            names = list(self._unwritable) if name is None else [name]
            closed = [
                self._unwritable.pop(log_name) for log_name in names if log_name in self._unwritable
            ]
        for read_only, _ in closed:
            read_only.close()

    def plan_logs(
        self, reads: Sequence[WantedRead], *, duration_ms: int, owner: str
    ) -> list[PlannedRead]:
        """Plan reads of logs: find their positions, pin the ranges and list their split points.

        The pins last for `duration_ms`; if it is 0, nothing is pinned.
        """
        from lakebed.store.read_planner import LogSource, plan_reads

        def source(name: str) -> LogSource:
            return LogSource(self.open_log_to_read(name))

        return plan_reads(reads, source, pins=self.pins, duration_ms=duration_ms, owner=owner)

    def manifest_log(self, name: str) -> ManifestLog | None:
        """Open a log's manifest log (the record of its segments and their tiers) for reading.

        `name` is the log's name or stream id. Returns None if the log has no manifest log. Raises
        `NotFound` if there is no such log. The log itself is not opened.
        """
        from lakebed.store.manifest_logs import manifest_log_of

        if self._is_closed:
            raise Closed(f"{self.root}: the store is closed")
        return manifest_log_of(self.disk, self.root, name)

    def tier2_of(self, log: str) -> str:
        """Return where the Tier 2 of a log is: a URL, or the path of a folder."""
        from lakebed.store.residency import tier2_address, tier2_place

        paths = require_log(self.disk, self.root, log)
        return tier2_place(
            self.root, tier2_address(self.disk, paths, default=self._manager.tier2_address)
        )

    def migrate_tier2(
        self,
        name: str,
        address: str | None = None,
        *,
        delete: bool = False,
        progress: Progress = no_progress,
    ) -> MigrationReport:
        """Copy a log's Tier 2 objects to another Tier 2, which the log uses from then on.

        Raises `Busy` if the log is open. See `AofManager.migrate_tier2`.
        """
        return self._manager.migrate_tier2(name, address, delete=delete, progress=progress)

    @property
    def topics(self) -> StoreTopics:
        """The topics of the store, to create, open, configure, list and delete."""
        if self._is_closed:
            raise Closed(f"{self.root}: the store is closed")
        return self._topics.get("")

    def topic(self, name: str, *, partitions: int | None = None) -> StoreTopic:
        """Open a topic, and create it with `partitions` partitions (by default one) if needed.

        Raises `InputError` if `partitions` is given and the topic exists with another number.
        """
        return self.topics.ensure(name, partitions=partitions)

    def topic_summary(self, name: str) -> TopicSummary:
        """Summarise a topic from its files, without opening it for writing.

        Raises `NotFound` if there is no such topic.
        """
        with self.open_read_only() as reading:
            return reading.topic_summary(name)

    def dead_letters(
        self, topic: str, group: str, *, max_messages: int | None = None
    ) -> list[DeadLetter]:
        """Return the dead letters of a group (messages that were delivered too many times).

        Dead letters that were sent back to the topic are left out. They are in order of their
        partitions, oldest first. With `max_messages`, at most that many are returned.
        """
        with self.open_read_only() as reading:
            return reading.dead_letters(topic, group, max_messages=max_messages)

    def plan_topics(
        self, reads: Sequence[WantedRead], *, duration_ms: int, owner: str
    ) -> list[PlannedRead]:
        """Plan reads of topics: find their positions, pin the ranges and list their split points.

        The pins last for `duration_ms`; if it is 0, nothing is pinned.
        """
        from lakebed.store.read_planner import TopicSource, plan_reads

        def source(name: str) -> TopicSource:
            return TopicSource(self.topics.open_to_read(name))

        return plan_reads(reads, source, pins=self.pins, duration_ms=duration_ms, owner=owner)

    @property
    def lake(self) -> Lake:
        """The object store. The first use opens it, and creates it if there is none."""
        if self._is_closed:
            raise Closed(f"{self.root}: the store is closed")
        return self._lakes.get("")

    @property
    def keys(self) -> AccessKeys:
        """The access keys, which clients need for the HTTP API over TCP and for S3."""
        return self.lake.keys

    def buckets(self) -> list[BucketInfo]:
        """Return all buckets, sorted by name."""
        return self.lake.buckets.list()

    def bucket(self, name: str, *, versioning: Versioning | None = None) -> Bucket:
        """Open a bucket, and create it if it does not exist.

        Raises `BucketExists` if `versioning` is given and the bucket exists with another one.
        """
        from lakebed.store.bucket import Bucket

        self.lake.buckets.create(name, versioning=versioning)
        return Bucket(self.lake, name)

    def open_bucket(self, name: str) -> Bucket:
        """Open an existing bucket; raises `NoSuchBucket` if there is no such bucket."""
        from lakebed.store.bucket import Bucket

        self.lake.buckets.get(name)
        return Bucket(self.lake, name)

    def delete_bucket(self, name: str) -> None:
        """Delete a bucket, and abort its multipart uploads.

        Raises `BucketNotEmpty` if it has objects or old versions.
        """
        self.lake.buckets.delete(name)

    def topic_names(self) -> list[str]:
        """Return the names of all topics, without opening any."""
        return topic_names(self.disk, self.root)

    def bucket_names(self) -> list[str]:
        """Return the names of all buckets; does not create an object store if there is none."""
        paths = LakePaths(self.root)
        has_lake = self._lakes.opened() or any(map(self.disk.exists, paths.traces))
        return [bucket.name for bucket in self.buckets()] if has_lake else []

    def state(self) -> StoreState:
        """Return what is in the store (logs, topics, buckets), without opening logs or topics."""
        return StoreState(
            root=os.path.abspath(self.root),
            version=RELEASE,
            store_version=self.version.version,
            process_id=os.getpid(),
            opened_ms=self.opened_ms,
            logs=self.logs(),
            topics=self.topic_names(),
            buckets=self.bucket_names(),
            free_bytes=self.disk.free_bytes(self.root),
            pins=len(self.pins.active()),
            created_ms=self.version.created_ms,
            restored_ms=self.version.restored_ms,
        )

    def configuration(self) -> dict[str, dict[str, Any]]:
        """Return the effective settings by section, with secrets hidden."""
        return printable_settings(self._sections)

    def counters(self) -> dict[str, dict[str, dict[str, int | float]]]:
        """Return the counters of everything that is open: by engine, then part, then name.

        The tier counters that all logs share are left out.
        """
        return engine_values(self.counts())

    def counts(self) -> list[PartCounters]:
        """Return the counters of everything that is open, with labels and full histograms."""
        of_store = Snapshot({}, {"damage_unacknowledged": self.damage.unacknowledged_count}, {})
        return [
            *engine_counts(**self._open_things(), tiers=self._manager.tier_counters),
            PartCounters("store", {}, of_store),
        ]

    def failures(self) -> list[FailedPart]:
        """Return the open parts that refuse writes or fail in the background, and their errors."""
        upkeep = {LOG_UPKEEP: self._manager.failures()}
        for topics in self._topics.opened().values():
            upkeep[PARTITION_UPKEEP] = topics.upkeep_failures()
            upkeep[GROUP_UPKEEP] = topics.group_upkeep_failures()
        for lake in self._lakes.opened().values():
            upkeep[OBJECT_UPKEEP] = lake.upkeep_failures()
        return engine_failures(**self._open_things(), upkeep=upkeep)

    @property
    def maintenance(self) -> Maintenance:
        """Methods that verify and repair the store, and move segments between tiers."""
        return Maintenance(self)

    def object_totals(self) -> Totals | None:
        """Return the totals of the object store; None if it is not open. See `Lake.totals`."""
        lake = self._lakes.opened().get("")
        return None if lake is None else lake.totals()

    def open_read_only(self) -> ReadOnlyStore:
        """Return a new read-only store on the same root, which reads the files on its own.

        The caller must close it.
        """
        return self._open_read_only()

    def _open_things(self) -> _OpenThings:
        opened = [store_topics.opened() for store_topics in self._topics.opened().values()]
        return {
            "logs": self._logs.opened(),
            "partitions": [
                partition
                for topics, _ in opened
                for topic in topics
                for partition in topic.opened_partitions()
            ],
            "groups": [
                part for _, groups in opened for group in groups for part in group.opened_parts()
            ],
            "lake": self._lakes.opened().get(""),
        }

    def _open_lake(self, config: SeglakeConfig, connector: Connector | None, name: str) -> Lake:
        from lakebed.seglake.lake import Lake

        assert not name, "a store has only one object store"
        if self._is_lake_closed:
            raise Closed(f"{self.root}: the store is closed")
        if connector is None:
            raise InputError(
                "the object store cannot be opened, because `disk` was passed without a `connector`"
            )
        lake = Lake(
            self.root,
            disk=self.disk,
            runner=self.runner,
            config=config,
            connector=connector,
            random=self._random,
            reserved_buckets=(TIER2_BUCKET,),
        )
        try:
            self.damage.record(
                *(_lost_objects(self.root, *segment_damage) for segment_damage in lake.damage)
            )
        except LakebedError as error:  # the bytes stay as they are, and the next opening finds them
            _log.error("%s: cannot record damage of the object store: %s", self.root, error)
        return lake

    def _record_log_losses(self, name: str, problems: Sequence[str]) -> None:
        losses = (
            Loss(engine=LOGS, name=name, problem=problem.replace(self.root + os.sep, ""))
            for problem in problems
        )
        try:
            self.damage.record(*losses)
        except LakebedError as error:  # the bytes stay as they are, or are in the quarantine
            _log.error("log %s: cannot record damage: %s", name, error)

    def _close_lake(self) -> None:
        self._is_lake_closed = True  # a late read of a cold segment must not open it again
        for lake in self._lakes.close():
            lake.close()

    def _open_topics(
        self, config: TopicConfig, group_config: GroupConfig, name: str
    ) -> StoreTopics:
        """Opens the topics, on first use: a program with only logs runs no threads for them."""
        assert not name, "a store has only one set of topics"
        return StoreTopics(
            self.root,
            disk=self.disk,
            runner=self.runner,
            config=config,
            group_config=group_config,
            is_pinned=self.pins.covers_offsets,
            pin_mutex=self._pin_mutex,
            spare_budget=self._manager.spare_budget,
            read_object=lambda bucket, key: self.lake.objects.get(bucket, key, version_id=None),
            damage=self.damage,
            restored_ms=self.version.restored_ms,
            random=self._random,
        )

    def _close_topics(self) -> None:
        for topics in self._topics.close():
            topics.close()

    def close(self) -> None:
        """Close everything that is open and release the lock. Idempotent."""
        if self._companion is not None:
            self._companion.close()
        self._is_closed = True
        self._undo.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _lost_objects(root: str, segment_id: str, damage: Damage) -> Loss:
    return Loss(
        engine=OBJECTS,
        name=segment_id,
        path=segment_path(LakePaths(root).segments, segment_id),
        start=damage.offset,
        end=damage.offset + damage.length,
        problem=damage.why,
    )


def _refuse_newer(disk: Disk, root: str, *, with_metadata: bool) -> None:
    """Raises `UnknownVersion` if a newer version of Lakebed wrote the store.

    Checks `store.json`. If that is missing, or does not name this release as the last to open the
    store for writing, also checks the versions of all other files, and with `with_metadata` of the
    metadata database.
    """
    store_version = version.load(disk, root)
    if store_version is None or store_version.program != RELEASE:
        from lakebed.store.format_survey import refuse_newer

        refuse_newer(disk, root, with_metadata=with_metadata)


def _connect(path: str) -> Connection:
    from lakebed.seglake.meta.connection import connect

    return connect(path)
