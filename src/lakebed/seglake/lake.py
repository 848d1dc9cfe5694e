"""The object store of a root, open for writing: its buckets, objects, uploads and access keys.

    <root>/objects/segments/<segment id>.seg   objects/manifests/<ab>/<version id>   meta.db
    <root>/secret.key                          if access keys exist

The process that opens the object store must hold the root's lock. Opening creates missing folders
and the database, or migrates the database, and seals the segments that a crash left open. Segments
that are already sealed are not read; only the lengths of their files are checked.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterable
from functools import partial
from random import Random
from typing import Any

from lakebed.base.clock import HybridClock
from lakebed.base.commit import Barrier, CommitConfig
from lakebed.base.commit.linger import Linger
from lakebed.base.counters import Counters
from lakebed.base.errors import LakebedError
from lakebed.base.files import Disk, PathLike, make_folders
from lakebed.base.runner import Runner
from lakebed.base.runner.step_driver import StepDriver
from lakebed.base.units import MIB
from lakebed.seglake.access_keys import AccessKeys
from lakebed.seglake.bucket_guard import BucketGuard
from lakebed.seglake.buckets import Buckets
from lakebed.seglake.change import Change
from lakebed.seglake.chunk_reader import ChunkReader
from lakebed.seglake.commit_sink import CommitSink
from lakebed.seglake.config import SeglakeConfig
from lakebed.seglake.errors import Damaged, MetadataLost
from lakebed.seglake.lake_recovery import recover_lake
from lakebed.seglake.lost_metadata import LostMetadataCheck
from lakebed.seglake.manifest_files import ManifestFiles
from lakebed.seglake.meta.connection import Connector, connect
from lakebed.seglake.meta.database import Database
from lakebed.seglake.meta.rows import Totals
from lakebed.seglake.meta.snapshots import Snapshots
from lakebed.seglake.model import State
from lakebed.seglake.multipart import Uploads
from lakebed.seglake.object_reader import FoundVersion, require_object
from lakebed.seglake.objects import Objects
from lakebed.seglake.paths import LakePaths
from lakebed.seglake.segment_pool import SegmentPool
from lakebed.seglake.upkeep import Upkeep
from lakebed.seglake.versions import VersionRules

_log = logging.getLogger(__name__)

_BATCH_BYTES_MAX = 16 * MIB


class Lake:
    """An object store that is open for writing. Thread-safe.

    Use its attributes `buckets`, `objects`, `uploads` and `keys`.
    """

    def __init__(
        self,
        root: PathLike,
        *,
        disk: Disk,
        runner: Runner,
        config: SeglakeConfig | None = None,
        connector: Connector = connect,
        random: Random | None = None,
        reserved_buckets: Iterable[str] = (),
    ) -> None:
        """`connector` opens the metadata database; it must use the same disk as `disk`.

        `reserved_buckets` are names of buckets that only calls with `as_owner` can change.
        """
        self._config = config or SeglakeConfig()
        self._runner = runner
        self._disk = disk
        self.counters = Counters()
        self._marking_mutex = runner.mutex()
        # Versions whose damage mark is queued or being committed; guarded by _marking_mutex.
        self._marking: set[str] = set()
        random = random or Random()
        self._paths = paths = LakePaths(root)
        self._lost_check = LostMetadataCheck(disk, paths)
        for folder in (paths.segments, paths.manifests):
            make_folders(disk, folder)
        with contextlib.ExitStack() as undo:
            self._database = self._open_database(paths, disk, connector)
            undo.callback(self._database.close)
            self.damage = recover_lake(self._database, disk, paths, clock=runner.clock)
            with self._database.snapshot() as reader:
                last, site_id = reader.last_hlc(), reader.site_id()
            clock = HybridClock(runner.clock, last=last)
            rules = VersionRules(clock=clock, site_id=site_id, random=random)
            self._segments = SegmentPool(
                paths.segments, disk=disk, runner=runner, config=self._config, random=random
            )
            chunks = ChunkReader(paths.segments, disk=disk, runner=runner, config=self._config)
            undo.callback(chunks.close)
            sink = CommitSink(self._segments, self._database, rules.put_all, clock=runner.clock)
            self._barrier = self._make_barrier(sink)
            guard = BucketGuard(
                reserved=reserved_buckets, if_match_buckets=self._config.if_match_buckets
            )
            self.buckets = Buckets(
                self._database,
                self._barrier,
                clock=clock,
                site_id=site_id,
                guard=guard,
                config=self._config,
            )
            self.objects = self._make_objects(chunks, rules, guard)
            self.uploads = self._make_uploads(rules, random)
            self.keys = self._make_keys(paths, disk)
            self._upkeep = self._make_upkeep(sink, ManifestFiles(paths.manifests, disk=disk))
            self._committing = runner.spawn("objects: commit", self._barrier.step)
            self._keeping_up = StepDriver("objects upkeep", runner, Upkeep.step)
            self._keeping_up.add(self._upkeep)
            self._undo = undo.pop_all()
        self._is_closed = False

    @property
    def failure(self) -> LakebedError | None:
        """The error that makes all changes fail at present, or None.

        It is `MetadataLost` while the database file is missing but the store has data. Any other
        error lasts until the store is opened again. A single failed write to the disk is not such
        an error: the next change uses a new segment and reopens the database.
        """
        try:
            self._lost_check.check_file()
        except MetadataLost as error:
            return error
        return self._barrier.failure

    def upkeep_failures(self) -> dict[str, Exception]:
        """Returns the errors of background work whose last attempt failed, by name of the work.

        Failed work is retried.
        """
        return {part.name: error for part, error in self._keeping_up.failures().items()}

    @property
    def metadata(self) -> Snapshots:
        """Read access to the metadata."""
        return self._database

    def totals(self) -> Totals:
        """Counts the stored objects, versions, segments and bytes.

        Reads all metadata, which takes seconds for millions of objects.
        """
        with self._database.query() as reader:
            return reader.totals()

    def close(self) -> None:
        """Commits queued changes, seals segments and writes pending manifest files. Idempotent.

        Segments that are still in use are sealed when the store is opened again.
        """
        if self._is_closed:
            return
        self._is_closed = True
        with self._undo:
            self._keeping_up.stop()
            self._barrier.close()
            self._committing.stop()
            self._upkeep.finish()

    def __enter__(self) -> Lake:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def check_version(self, bucket: str, key: str, version_id: str) -> bool:
        """Reads a whole version from disk and returns whether it is intact.

        Marks the version as damaged if it is not intact, and otherwise removes such a mark. If the
        version was replaced while it was read, returns True and marks nothing. Raises
        `NoSuchBucket` or `NoSuchVersion` if the bucket or version does not exist, and
        `MethodNotAllowed` if the version is a delete marker.
        """
        config = SeglakeConfig(cache_bytes=0)
        chunks = ChunkReader(
            self._paths.segments, disk=self._disk, runner=self._runner, config=config
        )
        with contextlib.closing(chunks):
            version = self._find(bucket, key, version_id)
            try:
                for chunk in version.manifest.chunks:
                    chunks.read(chunk)
            except Damaged:
                if self._find(bucket, key, version_id).manifest != version.manifest:
                    return True  # replaced or moved while it was read
                self._set_state(version.row.version_id, State.DAMAGED).run()
                return False
        if version.row.state is State.DAMAGED:
            self._set_state(version.row.version_id, version.manifest.state).run()
        return True

    def _find(self, bucket: str, key: str, version_id: str) -> FoundVersion:
        with self._database.snapshot() as reader:
            return require_object(reader, bucket, key, version_id)

    # Methods that create the parts of the lake, in the order in which `__init__` calls them.

    def _open_database(self, paths: LakePaths, disk: Disk, connector: Connector) -> Database:
        return Database(
            paths.database,
            disk=disk,
            connector=connector,
            runner=self._runner,
            readers_max=self._config.readers_max,
            new_check=self._lost_check,
        )

    def _make_barrier(self, sink: CommitSink) -> Barrier[Change[Any], Any]:
        limits = CommitConfig(
            batch_bytes_max=min(_BATCH_BYTES_MAX, self._config.sync_bytes),
            delay_ms_max=self._config.sync_interval_ms,
            queue_bytes_max=self._config.sync_bytes,
        )
        return Barrier(
            sink,
            name="objects",
            runner=self._runner,
            wake=self._wake,
            config=limits,
            # Nothing lingers: a batch forms while the previous one is synced.
            linger=Linger(delay_ms_max=0),
            counters=self.counters,
        )

    def _make_objects(
        self, chunks: ChunkReader, rules: VersionRules, guard: BucketGuard
    ) -> Objects:
        return Objects(
            self._database,
            chunks,
            mark_damaged=self._mark_damaged,
            segments=self._segments,
            barrier=self._barrier,
            rules=rules,
            guard=guard,
            config=self._config,
            runner=self._runner,
        )

    def _make_uploads(self, rules: VersionRules, random: Random) -> Uploads:
        return Uploads(
            self._database,
            self.objects,
            self._barrier,
            rules=rules,
            config=self._config,
            clock=self._runner.clock,
            random=random,
        )

    def _make_keys(self, paths: LakePaths, disk: Disk) -> AccessKeys:
        return AccessKeys(
            self._database,
            self._barrier,
            disk=disk,
            path=paths.secret_key,
            clock=self._runner.clock,
            runner=self._runner,
        )

    def _make_upkeep(self, sink: CommitSink, files: ManifestFiles) -> Upkeep:
        return Upkeep(
            self._database,
            self._segments,
            files,
            self._barrier,
            sink,
            reads=lambda: self.objects.read_count,
            runner=self._runner,
        )

    def _wake(self) -> None:
        self._committing.wake()

    def _mark_damaged(self, version_id: str, *, waits: bool) -> None:
        """Marks a version as damaged. Ignores a failure, because the reader gets an error anyway.

        With `waits`, returns after the mark is committed or has failed. Otherwise only queues the
        mark, unless a mark of the version is already queued.
        """
        change = self._set_state(version_id, State.DAMAGED)
        with contextlib.suppress(LakebedError):
            if waits:
                _log.error("version %s is damaged", version_id)
                change.run()
            elif self._begin_mark(version_id):
                _log.error("version %s is damaged", version_id)
                try:
                    change.submit(timeout=0).when_done(partial(self._end_mark, version_id))
                except LakebedError:
                    self._end_mark(version_id)

    def _begin_mark(self, version_id: str) -> bool:
        with self._marking_mutex:
            is_new = version_id not in self._marking
            self._marking.add(version_id)
            return is_new

    def _end_mark(self, version_id: str) -> None:
        with self._marking_mutex:
            self._marking.discard(version_id)

    def _set_state(self, version_id: str, state: State) -> Change[None]:
        return Change(self._barrier, lambda writer, _chunks: writer.set_state(version_id, state))
