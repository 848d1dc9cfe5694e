"""A store that is open for writing: one process at a time, held by the root's lock.

    <root>/lakebed.toml  lakebed.lock  lakebed.sock  store.json  pins/  quarantine/
           aof/<log>/  topics/<topic>/<partition>/  groups/
           objects/{segments,manifests}/  meta.db

The lock is taken through the engine's manager, so a bare `AofManager` on the same root is refused
and refuses in turn. Nothing is created in a root whose `store.json` is newer or damaged.
"""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Sequence
from functools import partial
from pathlib import Path
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
from lakebed.store.pins import Pins
from lakebed.store.read_only import ReadOnlyStore, check_root
from lakebed.store.settings import aof_config, settings_of
from lakebed.store.store_state import StoreState
from lakebed.store.topics import StoreTopic, StoreTopics
from lakebed.stroma.config import GroupConfig
from lakebed.stroma.group import PartitionGroup
from lakebed.version import VERSION as RELEASE

# Imported when somebody asks for it: a program that only writes logs needs no SQLite.
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

_TRY_AGAIN_NS = 5 * NS_PER_S  # to open a log for writing, on a disk that took no writes
_log = logging.getLogger(__name__)


class StoreOptions(TypedDict, total=False):
    """How a root is opened."""

    config: AofConfig | None  # of the logs
    topic_config: TopicConfig | None  # of topics that have none of their own
    group_config: GroupConfig | None  # of groups that have none of their own
    object_config: SeglakeConfig | None
    tier_config: SharedTierConfig | None  # what logs share of their tiers, and where Tier 2 is
    disk: Disk | None
    runner: Runner | None
    connector: Connector | None  # of the metadata on a disk that is passed in; else no buckets


class Closable(Protocol):
    def close(self) -> None: ...


class _OpenThings(TypedDict):
    """Of each engine, what somebody has asked for since the store was opened."""

    logs: dict[str, Aof]
    partitions: list[Partition]
    groups: list[PartitionGroup]
    lake: Lake | None


class Store:
    """Owns the lock, the logs, the topics and the pins of a root. Thread-safe."""

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
        """Open a root, for writing (creating it; `Locked` if another program writes) or reading.

        By default the configurations are what `lakebed.toml` and the environment say, or the
        defaults on a disk that was passed in. Reading needs only `tier_config`.
        """
        disk, connector = options.get("disk"), options.get("connector")
        tier_config, runner = options.get("tier_config"), options.get("runner")
        if read_only:
            return ReadOnlyStore(
                root, tier_config=tier_config, disk=disk, runner=runner, connector=connector
            )
        check_root(disk or real_disk(), os.fspath(root))
        config, manager_config = options.get("config"), ManagerConfig()
        topic_config, group_config = options.get("topic_config"), options.get("group_config")
        object_config = options.get("object_config")
        if disk is None:
            settings = settings_of(Path(root), environment=os.environ)
            tier_config = tier_config or settings.config(SharedTierConfig)
            topic_config = topic_config or settings.config(TopicConfig)
            group_config = group_config or settings.config(GroupConfig)
            object_config = object_config or settings.config(SeglakeConfig)
            connector = connector or _connect
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
            disk=disk or real_disk(),
            runner=runner,
            connector=connector,
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
        disk: Disk,
        runner: Runner | None,
        connector: Connector | None,
    ) -> None:
        """Use `open`."""
        self.root = os.fspath(root)
        self.disk = disk
        self.config = config
        self.tier_config = tier_config
        configs = (manager_config, tier_config, topic_config, group_config, object_config)
        self._sections = sections_of(config, *configs)
        _refuse_newer(disk, self.root, with_metadata=connector is _connect)
        self._is_closed = False
        self._is_lake_closed = False
        with contextlib.ExitStack() as undo:
            if runner is None:
                runner = ThreadRunner()
                undo.callback(runner.close)
            self.runner: Runner = runner
            self.pins = Pins(disk, self.root, clock=runner.clock, is_writer=True)
            open_lake = partial(self._open_lake, object_config, connector)
            self._lakes = OpenRegistry(open_lake, name="the object store", runner=runner)
            undo.callback(self._close_lake)  # behind the logs, which keep their cold segments there
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
                on_lost=self._record_log_losses,
            )
            undo.callback(self._manager.close)
            now_ms = runner.clock.wall_ns() // NS_PER_MS
            self.opened_ms = now_ms
            self.version = version.ensure(disk, self.root, now_ms=now_ms, program=RELEASE)
            for name in (PINS_NAME, QUARANTINE_NAME):
                folder = os.path.join(self.root, name)
                if not disk.is_folder(folder):
                    make_folders(disk, folder)
            self.pins.active()  # removes what expired
            self.damage = DamageLedger(disk, self.root, runner=runner)
            self._logs = OpenRegistry(self._manager.open, name="the logs", runner=runner)
            self._unwritable: dict[str, tuple[ReadOnlyLog, int]] = {}  # guarded by the next
            self._unwritable_mutex = runner.mutex()
            undo.callback(self._close_unwritable)
            open_topics = partial(self._open_topics, topic_config, group_config)
            self._topics = OpenRegistry(open_topics, name="the topics", runner=runner)
            undo.callback(self._close_topics)
            self._companion: Closable | None = None
            self._undo = undo.pop_all()

    def accompany(self, companion: Closable) -> None:
        """Close it before anything of the store is closed: it serves the store to others."""
        self._companion = companion

    @property
    def is_open(self) -> bool:
        return not self._is_closed

    def logs(self) -> list[str]:
        """The names of all logs, open or not."""
        return log_names(self.disk, self.root)

    def log(self, name: str) -> Aof:
        """The log of that name, opened for writing, created if need be; the same one each time,
        until it is closed."""
        if self._is_closed:
            raise Closed(f"{self.root}: the store is closed")
        log = self._logs.get(name)
        if log.is_closed and not self._is_closed:
            self._logs.forget(name, log)
            log = self._logs.get(name)
        return log

    def open_log(self, name: str) -> Aof:
        """As `log`, but `NotFound` if there is none, and none is created."""
        if not self.disk.is_folder(LogPaths(self.root, name).segments):
            raise NotFound(f"there is no log {name}; open it to create it")
        return self.log(name)

    def log_summary(self, name: str) -> LogSummary:
        """What the files of a log report, without reading its sealed records. The log is not
        opened."""
        with self._read_only() as reading:
            return reading.log_summary(name)

    def open_log_to_read(self, name: str) -> Aof | ReadOnlyLog:
        """The log, for a caller that only reads; `NotFound` if there is none.

        Opening it writes. On a disk that takes no writes it is read as its files show it; opening
        is tried again after a while.
        """
        now_ns = self.runner.clock.monotonic_ns()
        with self._unwritable_mutex:
            reading, until_ns = self._unwritable.get(name, (None, 0))
        if reading is not None and now_ns < until_ns:
            return reading
        try:
            log = self.open_log(name)
        except (NoSpace, DiskError) as error:
            _log.warning("%s: read as it is, for it cannot be opened for writing: %s", name, error)
        else:
            self._close_unwritable(name)
            return log
        opened = reading or self._manager.open_read_only(name)
        with self._unwritable_mutex:
            opened, _ = self._unwritable.get(name, (opened, 0))
            self._unwritable[name] = (opened, now_ns + _TRY_AGAIN_NS)
        return opened

    def _close_unwritable(self, name: str | None = None) -> None:
        """That log, or all of them."""
        with self._unwritable_mutex:
            names = list(self._unwritable) if name is None else [name]
            closed = [self._unwritable.pop(each) for each in names if each in self._unwritable]
        for reading, _ in closed:
            reading.close()

    def plan_logs(
        self, reads: Sequence[WantedRead], *, duration_ms: int, owner: str
    ) -> list[PlannedRead]:
        """As `plan_topics`, of logs."""
        from lakebed.store.read_planner import LogSource, plan_reads

        def source(name: str) -> LogSource:
            return LogSource(self.open_log_to_read(name))

        return plan_reads(reads, source, pins=self.pins, duration_ms=duration_ms, owner=owner)

    def manifest_log(self, name: str) -> ManifestLog | None:
        """What was recorded of the log's segments, to be read; None if it never had such records.

        By the log's name, or its stream id; `NotFound` if there is none. The log is not opened.
        """
        from lakebed.store.manifest_logs import manifest_log_of

        if self._is_closed:
            raise Closed(f"{self.root}: the store is closed")
        return manifest_log_of(self.disk, self.root, name)

    def tier2_of(self, log: str) -> str:
        """Where the Tier 2 of a log is: a URL, or a folder of the store."""
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
        """Move the Tier 2 of a log that is not open; see `AofManager.migrate_tier2`."""
        return self._manager.migrate_tier2(name, address, delete=delete, progress=progress)

    @property
    def topics(self) -> StoreTopics:
        """All topics: to create, configure, list and delete them."""
        if self._is_closed:
            raise Closed(f"{self.root}: the store is closed")
        return self._topics.get("")

    def topic(self, name: str, *, partitions: int | None = None) -> StoreTopic:
        """The topic of that name, created if need be with so many partitions, or one.

        `InputError` if it is there with another number of them.
        """
        return self.topics.ensure(name, partitions=partitions)

    def topic_summary(self, name: str) -> TopicSummary:
        """What the files of a topic report, without opening it; `NotFound` if there is none."""
        with self._read_only() as reading:
            return reading.topic_summary(name)

    def dead_letters(
        self, topic: str, group: str, *, max_messages: int | None = None
    ) -> list[DeadLetter]:
        """The oldest dead letters of a group that were not sent back, up to `max_messages`."""
        with self._read_only() as reading:
            return reading.dead_letters(topic, group, max_messages=max_messages)

    def plan_topics(
        self, reads: Sequence[WantedRead], *, duration_ms: int, owner: str
    ) -> list[PlannedRead]:
        """Resolve what is going to be read of topics, pin it unless `duration_ms` is 0, and list
        its split points."""
        from lakebed.store.read_planner import TopicSource, plan_reads

        def source(name: str) -> TopicSource:
            return TopicSource(self.topics.open_to_read(name))

        return plan_reads(reads, source, pins=self.pins, duration_ms=duration_ms, owner=owner)

    @property
    def lake(self) -> Lake:
        """The object store, as its engine; opened by the first who asks."""
        if self._is_closed:
            raise Closed(f"{self.root}: the store is closed")
        return self._lakes.get("")

    @property
    def keys(self) -> AccessKeys:
        """Access keys: who may use the store over TCP, and over S3."""
        return self.lake.keys

    def buckets(self) -> list[BucketInfo]:
        """All of them, by name."""
        return self.lake.buckets.list()

    def bucket(self, name: str, *, versioning: Versioning | None = None) -> Bucket:
        """The bucket of that name, created if need be.

        `BucketExists` if it is there with another versioning than the one asked for.
        """
        from lakebed.store.bucket import Bucket

        self.lake.buckets.create(name, versioning=versioning)
        return Bucket(self.lake, name)

    def open_bucket(self, name: str) -> Bucket:
        """`NoSuchBucket` if there is none."""
        from lakebed.store.bucket import Bucket

        self.lake.buckets.get(name)
        return Bucket(self.lake, name)

    def delete_bucket(self, name: str) -> None:
        """`BucketNotEmpty` if objects or old versions are left in it; uploads are aborted."""
        self.lake.buckets.delete(name)

    def topic_names(self) -> list[str]:
        """Of all topics, without opening any."""
        return topic_names(self.disk, self.root)

    def bucket_names(self) -> list[str]:
        """Of all buckets; a store that never had one stays without an object store."""
        paths = LakePaths(self.root)
        is_there = self._lakes.opened() or any(map(self.disk.exists, paths.traces))
        return [bucket.name for bucket in self.buckets()] if is_there else []

    def state(self) -> StoreState:
        """What is in it, without opening anything."""
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
        """The settings that count, by section, secrets hidden."""
        return printable_settings(self._sections)

    def counters(self) -> dict[str, dict[str, dict[str, int | float]]]:
        """What is counted of all that is open: by engine, by log or partition, by name."""
        return engine_values(self.counts())

    def counts(self) -> list[PartCounters]:
        """The same, each with its labels, and histograms whole."""
        of_store = Snapshot({}, {"damage_unacknowledged": self.damage.unacknowledged_count}, {})
        return [
            *engine_counts(**self._open_things(), tiers=self._manager.tier_counters),
            PartCounters("store", {}, of_store),
        ]

    def failures(self) -> list[FailedPart]:
        """What of all that is open takes no writes or fails in the background, and why."""
        upkeep = {LOG_UPKEEP: self._manager.failures()}
        for topics in self._topics.opened().values():
            upkeep[PARTITION_UPKEEP] = topics.upkeep_failures()
            upkeep[GROUP_UPKEEP] = topics.group_upkeep_failures()
        for lake in self._lakes.opened().values():
            upkeep[OBJECT_UPKEEP] = lake.upkeep_failures()
        return engine_failures(**self._open_things(), upkeep=upkeep)

    @property
    def maintenance(self) -> Maintenance:
        """Verification, repair and moves between tiers."""
        return Maintenance(self)

    def object_totals(self) -> Totals | None:
        """How much the object store has, None if it is not open; see `Lake.totals`."""
        lake = self._lakes.opened().get("")
        return None if lake is None else lake.totals()

    def _read_only(self) -> ReadOnlyStore:
        """As another process would read it."""
        return ReadOnlyStore(self.root, tier_config=self.tier_config)

    def _open_things(self) -> _OpenThings:
        opened = [one.opened() for one in self._topics.opened().values()]
        return {
            "logs": self._logs.opened(),
            "partitions": [
                part for topics, _ in opened for one in topics for part in one.opened_partitions()
            ],
            "groups": [
                part for _, groups in opened for one in groups for part in one.opened_parts()
            ],
            "lake": self._lakes.opened().get(""),
        }

    def _open_lake(self, config: SeglakeConfig, connector: Connector | None, name: str) -> Lake:
        from lakebed.seglake.lake import Lake

        assert not name, "there is one of them"
        if self._is_lake_closed:
            raise Closed(f"{self.root}: the store is closed")
        if connector is None:
            raise InputError("a disk that was passed in needs the connector of its metadata")
        lake = Lake(
            self.root,
            disk=self.disk,
            runner=self.runner,
            config=config,
            connector=connector,
            reserved_buckets=(TIER2_BUCKET,),
        )
        try:
            self.damage.record(*(_lost_objects(self.root, *found) for found in lake.damage))
        except LakebedError as error:  # the bytes stay as they are, and are found again
            _log.error("%s: damage was not put on record: %s", self.root, error)
        return lake

    def _record_log_losses(self, name: str, problems: Sequence[str]) -> None:
        losses = (
            Loss(engine=LOGS, name=name, problem=problem.replace(self.root + os.sep, ""))
            for problem in problems
        )
        try:
            self.damage.record(*losses)
        except LakebedError as error:  # the bytes stay as they are, or are in the quarantine
            _log.error("log %s: damage was not put on record: %s", name, error)

    def _close_lake(self) -> None:
        self._is_lake_closed = True  # whoever still reads a cold segment must not open it again
        for lake in self._lakes.close():
            lake.close()

    def _open_topics(
        self, config: TopicConfig, group_config: GroupConfig, name: str
    ) -> StoreTopics:
        """When somebody asks: a program that has only logs runs nothing for topics."""
        assert not name, "there is one of them"
        return StoreTopics(
            self.root,
            disk=self.disk,
            runner=self.runner,
            config=config,
            group_config=group_config,
            is_pinned=self.pins.covers_offsets,
            spare_budget=self._manager.spare_budget,
            read_object=lambda bucket, key: self.lake.objects.get(bucket, key, version_id=None),
            damage=self.damage,
            restored_ms=self.version.restored_ms,
        )

    def _close_topics(self) -> None:
        for topics in self._topics.close():
            topics.close()

    def close(self) -> None:
        """Close everything that is open and let go of the lock. Idempotent."""
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
    """By `store.json`; by every file, if another release had the store open last."""
    found = version.load(disk, root)
    if found is None or found.program != RELEASE:
        from lakebed.store.format_survey import refuse_newer

        refuse_newer(disk, root, with_metadata=with_metadata)


def _connect(path: str) -> Connection:
    from lakebed.seglake.meta.connection import connect

    return connect(path)
