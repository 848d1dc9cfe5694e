"""The object store of a root, opened read-only. Works while a writer is running.

    lake = ReadOnlyLake(root, disk=disk, runner=runner)
    lake.buckets.list()
    for piece in lake.objects.get("photos", "2025/city.jpg"): ...

It does not take the root's lock, repairs nothing, marks nothing as damaged, and creates only the
files that SQLite readers share with the writer (`meta.db-wal`, `meta.db-shm`). Each read sees all
changes that are committed by then. A root that never had metadata has no buckets; if a root lost
its metadata, reads raise `MetadataLost`.
"""

from __future__ import annotations

from lakebed.base.files import Disk, PathLike
from lakebed.base.runner import Runner
from lakebed.seglake.access_keys import ReadOnlyAccessKeys
from lakebed.seglake.chunk_reader import ChunkReader
from lakebed.seglake.config import SeglakeConfig
from lakebed.seglake.lost_metadata import LostMetadataCheck
from lakebed.seglake.meta.connection import Connector, connect_read_only
from lakebed.seglake.meta.snapshots import ReadOnlyMetadata, Snapshots
from lakebed.seglake.model import BucketInfo
from lakebed.seglake.object_reader import ReadableObjects
from lakebed.seglake.paths import LakePaths
from lakebed.seglake.versions import require_bucket


class ReadOnlyBuckets:
    """Lists buckets. Thread-safe."""

    def __init__(self, metadata: Snapshots) -> None:
        self._metadata = metadata

    def list(self) -> list[BucketInfo]:
        """Returns all buckets, sorted by name."""
        with self._metadata.snapshot() as reader:
            return reader.buckets()

    def get(self, name: str) -> BucketInfo:
        """Returns the bucket; raises `NoSuchBucket` if it does not exist."""
        with self._metadata.snapshot() as reader:
            return require_bucket(reader, name)


class ReadOnlyLake:
    """A read-only view of an object store. Opens files only when they are used. Thread-safe."""

    def __init__(
        self,
        root: PathLike,
        *,
        disk: Disk,
        runner: Runner,
        config: SeglakeConfig | None = None,
        connector: Connector = connect_read_only,
    ) -> None:
        """`connector` opens the metadata database; it must use the same disk as `disk`."""
        config = config or SeglakeConfig()
        self.disk = disk
        self.paths = LakePaths(root)
        self.metadata = ReadOnlyMetadata(
            self.paths.database,
            disk=disk,
            runner=runner,
            readers_max=config.readers_max,
            connector=connector,
            new_check=LostMetadataCheck(disk, self.paths),
        )
        self.chunks = ChunkReader(self.paths.segments, disk=disk, runner=runner, config=config)
        self.buckets = ReadOnlyBuckets(self.metadata)
        self.keys = ReadOnlyAccessKeys(self.metadata)
        self.objects = ReadableObjects(
            self.metadata, self.chunks, mark_damaged=_ignore_damage, runner=runner, config=config
        )

    def close(self) -> None:
        """Closes all files. Idempotent."""
        self.chunks.close()
        self.metadata.close()

    def __enter__(self) -> ReadOnlyLake:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _ignore_damage(version_id: str, *, waits: bool) -> None:
    """Does nothing, because only a writer can mark a version as damaged.

    The reader gets the error anyway.
    """
