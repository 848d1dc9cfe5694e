"""Creates, configures, lists and deletes the buckets of the object store."""

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
# Operation names in the operation log.
CREATE, CONFIGURE, DELETE = "create-bucket", "set-versioning", "delete-bucket"


class Buckets:
    """Creates, configures, lists and deletes buckets. Thread-safe."""

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
        """Returns all buckets, sorted by name."""
        with self._database.snapshot() as reader:
            return reader.buckets()

    def get(self, name: str) -> BucketInfo:
        """Returns the bucket; raises `NoSuchBucket` if it does not exist."""
        with self._database.snapshot() as reader:
            return require_bucket(reader, name)

    def create(
        self, name: str, *, versioning: Versioning | None = None, as_owner: bool = False
    ) -> BucketInfo:
        return self.creation(name, versioning=versioning, as_owner=as_owner).run()

    def creation(
        self, name: str, *, versioning: Versioning | None = None, as_owner: bool = False
    ) -> Change[BucketInfo]:
        """Prepares the creation of a bucket. An existing bucket is returned unchanged.

        Without `versioning`, a new bucket gets the configured default. Raises `BadBucketName` if
        the name breaks the naming rules, and `BadState` if `versioning` is suspended. The change
        raises `BucketExists` if the bucket exists with another versioning than requested. A
        reserved bucket is created only with `as_owner`; otherwise the change raises
        `ReservedBucket`.
        """
        check_bucket_name(name)
        if versioning is Versioning.SUSPENDED:
            raise BadState(
                f"bucket {name}: a new bucket cannot have suspended versioning; create it with "
                "versioning enabled, then suspend it"
            )

        def apply(writer: Writer, _chunks: tuple[Chunk, ...]) -> BucketInfo:
            existing = writer.bucket(name)
            if existing is not None:
                if versioning not in (None, existing.versioning):
                    word = _versioning_word(existing.versioning)
                    raise BucketExists(f"bucket {name} already exists with versioning {word}")
                return existing
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
        """Prepares a change of the bucket's versioning, to enabled or suspended.

        Raises `BadState` if `versioning` is disabled, and `ReservedBucket` if the bucket is
        reserved. The change raises `NoSuchBucket` if the bucket does not exist.
        """
        self._guard.check_change(name)
        if versioning is Versioning.DISABLED:
            raise BadState(
                f"bucket {shown(name)}: versioning cannot be disabled; it can be enabled or "
                "suspended"
            )

        def apply(writer: Writer, _chunks: tuple[Chunk, ...]) -> BucketInfo:
            bucket = require_bucket(writer, name)
            if bucket.versioning is not versioning:
                writer.set_versioning(name, versioning)
                self._note(writer, CONFIGURE, name, hlc=str(self._clock.now()))
            return BucketInfo(name=name, created_ms=bucket.created_ms, versioning=versioning)

        return Change(self._barrier, apply)

    def delete(self, name: str) -> None:
        self.check_deletable(name)
        while not self.deletion(name).run():
            pass

    def check_deletable(self, name: str) -> None:
        """Raises `BucketNotEmpty` if the bucket has objects or old versions.

        Also raises `NoSuchBucket` if the bucket does not exist, and `ReservedBucket` if it is
        reserved. May be slow, because it may read all delete markers of the bucket.
        """
        self._guard.check_change(name)
        with self._database.snapshot() as reader:
            require_bucket(reader, name)
            if not reader.is_empty(name):
                raise _not_empty(name)

    def deletion(self, name: str) -> Change[bool]:
        """Prepares one step of deleting an empty bucket; call `check_deletable` first.

        A bucket with only delete markers and uploads is empty; a bucket with old versions is not.
        The change returns True once the bucket is deleted. False means that it removed delete
        markers or uploads but not yet the bucket, and the caller must repeat the step: removing
        millions of them in one transaction would block other changes for too long. The change
        raises `NoSuchBucket` or `BucketNotEmpty` if the bucket was deleted or filled meanwhile.
        """
        self._guard.check_change(name)

        def apply(writer: Writer, _chunks: tuple[Chunk, ...]) -> bool:
            require_bucket(writer, name)
            # Checks one row more than is removed: it may be the object that the last marker hides.
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


def _versioning_word(versioning: Versioning) -> str:
    """Returns the word for a versioning that users write in settings, commands and headers."""
    return "unversioned" if versioning is Versioning.DISABLED else versioning.value


def _not_empty(name: str) -> BucketNotEmpty:
    return BucketNotEmpty(f"bucket {shown(name)} is not empty: it has objects or old versions")
