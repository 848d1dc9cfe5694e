"""Buckets: created, configured, listed and deleted."""

from __future__ import annotations

from typing import Any

from lakebed.base.clock import NS_PER_MS, HybridClock
from lakebed.base.commit import Barrier
from lakebed.base.units import shown
from lakebed.seglake.bucket_guard import BucketGuard
from lakebed.seglake.change import Change
from lakebed.seglake.config import SeglakeConfig
from lakebed.seglake.errors import BadState, BucketExists, BucketNotEmpty
from lakebed.seglake.meta.database import Database
from lakebed.seglake.meta.writer import Writer
from lakebed.seglake.model import BucketInfo, Chunk, Versioning
from lakebed.seglake.names import check_bucket_name
from lakebed.seglake.versions import require_bucket

ROWS_AT_ONCE = 1000
CREATE, CONFIGURE, DELETE = "create-bucket", "set-versioning", "delete-bucket"  # in the oplog


class Buckets:
    """Thread-safe."""

    def __init__(
        self,
        database: Database,
        barrier: Barrier[Change[Any], Any],
        *,
        clock: HybridClock,
        site_id: str,
        guard: BucketGuard,
        config: SeglakeConfig,
    ) -> None:
        self._database = database
        self._barrier = barrier
        self._clock = clock
        self._site_id = site_id
        self._guard = guard
        self._config = config

    def list(self) -> list[BucketInfo]:
        """By name."""
        with self._database.snapshot() as reader:
            return reader.buckets()

    def get(self, name: str) -> BucketInfo:
        """`NoSuchBucket` if there is none."""
        with self._database.snapshot() as reader:
            return require_bucket(reader, name)

    def create(
        self, name: str, *, versioning: Versioning | None = None, as_owner: bool = False
    ) -> BucketInfo:
        return self.creation(name, versioning=versioning, as_owner=as_owner).run()

    def creation(
        self, name: str, *, versioning: Versioning | None = None, as_owner: bool = False
    ) -> Change[BucketInfo]:
        """A new bucket; one that is there already is fine, unless it should be another kind.

        Without `versioning` it is what the configuration says, or whatever the bucket has.
        `as_owner` is for the owner of a reserved bucket: nobody else creates it.
        """
        check_bucket_name(name)
        if versioning is Versioning.SUSPENDED:
            raise BadState("a bucket is created enabled or unversioned, and suspended later")

        def apply(writer: Writer, _chunks: tuple[Chunk, ...]) -> BucketInfo:
            found = writer.bucket(name)
            if found is not None:
                if versioning not in (None, found.versioning):
                    raise BucketExists(
                        f"bucket {name} is there, and its versioning is {found.versioning.value}"
                    )
                return found
            self._guard.check_change(name, as_owner=as_owner)
            bucket = BucketInfo(
                name=name,
                created_ms=self._clock.wall_ns() // NS_PER_MS,
                versioning=versioning or self._config.versioning,
            )
            writer.add_bucket(bucket)
            self._note(writer, CREATE, name, hlc=str(self._clock.now()))
            return bucket

        return Change(self._barrier, apply)

    def set_versioning(self, name: str, versioning: Versioning) -> BucketInfo:
        return self.configuration(name, versioning).run()

    def configuration(self, name: str, versioning: Versioning) -> Change[BucketInfo]:
        """Enabled or suspended; never back to unversioned."""
        self._guard.check_change(name)
        if versioning is Versioning.DISABLED:
            raise BadState("versioning can be enabled or suspended, a bucket stays versioned")

        def apply(writer: Writer, _chunks: tuple[Chunk, ...]) -> BucketInfo:
            found = require_bucket(writer, name)
            if found.versioning is not versioning:
                writer.set_versioning(name, versioning)
                self._note(writer, CONFIGURE, name, hlc=str(self._clock.now()))
            return BucketInfo(name=name, created_ms=found.created_ms, versioning=versioning)

        return Change(self._barrier, apply)

    def delete(self, name: str) -> None:
        self.check_deletable(name)
        while not self.deletion(name).run():
            pass

    def check_deletable(self, name: str) -> None:
        """`BucketNotEmpty` if it has objects or old versions. Reads all of its delete markers."""
        self._guard.check_change(name)
        with self._database.snapshot() as reader:
            require_bucket(reader, name)
            if not reader.is_empty(name):
                raise _not_empty(name)

    def deletion(self, name: str) -> Change[bool]:
        """An empty one, for which `check_deletable` was called: old versions count, delete markers
        and uploads do not.

        Returns whether it is gone. If not, some of its delete markers or uploads are: repeat it. So
        a bucket with millions of them does not keep others waiting for one long transaction.
        """
        self._guard.check_change(name)

        def apply(writer: Writer, _chunks: tuple[Chunk, ...]) -> bool:
            require_bucket(writer, name)
            # With the one after those that go: a version that came meanwhile keeps its marker.
            is_empty = writer.starts_with_markers(name, ROWS_AT_ONCE + 1)
            if writer.has_objects(name) or not is_empty:
                raise _not_empty(name)
            if writer.remove_markers(name, ROWS_AT_ONCE) == ROWS_AT_ONCE:
                return False
            if writer.remove_uploads(name, ROWS_AT_ONCE) >= ROWS_AT_ONCE:
                return False
            writer.remove_bucket(name)
            self._note(writer, DELETE, name, hlc=str(self._clock.now()))
            return True

        return Change(self._barrier, apply)

    def _note(self, writer: Writer, kind: str, name: str, *, hlc: str) -> None:
        writer.add_oplog(
            hlc=hlc, site_id=self._site_id, op=kind, bucket=name, key="", version_id=""
        )


def _not_empty(name: str) -> BucketNotEmpty:
    return BucketNotEmpty(f"bucket {shown(name)} holds objects or old versions")
