"""The rules for what a write does to the versions of a key, by the bucket's versioning state.

    enabled     every write adds a version; a delete adds a delete marker as the newest version
    suspended   a write replaces the null version; a delete replaces it with a null delete marker
    disabled    a key has only its null version; a delete removes it

The rules run inside the transaction that makes the change, so conditions see the current state.
Every write gets a timestamp of the hybrid clock, which orders the writes, and an entry in the
operation log. A delete that removes a version has an entry too; the removal of a null version that
a write replaces has none. Last-Modified is wall clock time, so objects that are written while the
clock is wrong have a wrong Last-Modified, but objects that are written later do not.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random
from typing import NamedTuple

from lakebed.base.clock import NS_PER_MS, HybridClock
from lakebed.base.errors import LakebedError
from lakebed.base.units import shown
from lakebed.seglake.errors import NoSuchBucket, NoSuchKey, PreconditionFailed
from lakebed.seglake.manifest import Manifest, encode
from lakebed.seglake.manifest_metadata import NO_CONTENT, NO_TEXTS
from lakebed.seglake.meta.reader import Reader
from lakebed.seglake.meta.rows import VersionRow
from lakebed.seglake.meta.writer import Writer
from lakebed.seglake.model import (
    NULL_VERSION,
    BucketInfo,
    Checksum,
    Chunk,
    Condition,
    Content,
    Deleted,
    ObjectInfo,
    State,
    Versioning,
)

PUT, MARK, REMOVE = "put", "delete-marker", "delete-version"  # operations in the operation log


class NewVersion(NamedTuple):
    """The contents of a version to be stored. The transaction assigns the version id."""

    size: int
    etag: str
    chunks: tuple[Chunk, ...]
    content: Content = NO_CONTENT
    checksums: tuple[Checksum, ...] = ()
    part_sizes: tuple[int, ...] = ()
    tags: Mapping[str, str] = NO_TEXTS


class PlannedPut(NamedTuple):
    """A put without a condition, so that it succeeds whatever the current object is."""

    bucket: str
    key: str
    new: NewVersion


class VersionRules:
    """Applies the rules within write transactions, so it is used by one thread at a time."""

    def __init__(self, *, clock: HybridClock, site_id: str, random: Random) -> None:
        self._clock = clock
        self._site_id = site_id
        self._random = random

    def put(
        self, writer: Writer, bucket: str, key: str, new: NewVersion, condition: Condition
    ) -> ObjectInfo:
        """Adds a version and makes it the current version of its key."""
        bucket_info = require_bucket(writer, bucket)
        if condition.is_given:
            check_condition(condition, writer.current(bucket, key), what=f"{bucket}/{shown(key)}")
        manifest = self._manifest(bucket_info, key, State.ACTIVE, new)
        self._add(writer, manifest, PUT)
        return info_of(manifest, is_latest=True)

    def put_all(
        self, writer: Writer, puts: Sequence[PlannedPut]
    ) -> list[ObjectInfo | LakebedError]:
        """Does the same as `put` for each of `puts` in order, but with fewer SQL statements.

        If it raises, the caller must roll back all of the puts and run each with `put` instead, so
        that only the invalid ones fail. It also raises if `puts` has two null versions of one key.
        """
        buckets = {name: writer.bucket(name) for name in {put.bucket for put in puts}}
        results: list[ObjectInfo | LakebedError] = []
        objects: list[tuple[VersionRow, bytes]] = []
        for name, key, new in puts:
            bucket = buckets[name]
            if bucket is None:
                results.append(no_bucket(name))
                continue
            manifest = self._manifest(bucket, key, State.ACTIVE, new)
            self._make_way(writer, manifest)
            objects.append((row_of(manifest), encode(manifest)))
            results.append(info_of(manifest, is_latest=True))
        writer.add_objects(objects, op=PUT)
        return results

    def delete(self, writer: Writer, bucket: str, key: str, condition: Condition) -> Deleted:
        """Deletes an object by adding a delete marker.

        In an unversioned bucket there are no delete markers, and the object itself is removed.
        """
        bucket_info = require_bucket(writer, bucket)
        current = writer.current(bucket, key)
        check_condition(condition, current, what=f"{bucket}/{shown(key)}")
        if bucket_info.versioning is Versioning.DISABLED:
            if current is not None:
                self._remove(writer, current)
                writer.clear_current(bucket, key)
            return Deleted(key, None, is_marker=False)
        empty = NewVersion(size=0, etag="", chunks=())
        manifest = self._manifest(bucket_info, key, State.DELETED, empty)
        self._add(writer, manifest, MARK)
        info = info_of(manifest, is_latest=True)
        return Deleted(key, info.shown_version_id, is_marker=True)

    def delete_version(
        self, writer: Writer, bucket: str, key: str, version_id: str, condition: Condition
    ) -> Deleted:
        """Removes one version permanently. If it was current, the next older becomes current.

        Removing a version that does not exist succeeds. `condition` is about the current object,
        not about the version to remove.
        """
        is_versioned = require_bucket(writer, bucket).versioning is not Versioning.DISABLED
        current = writer.current(bucket, key)
        check_condition(condition, current, what=f"{bucket}/{shown(key)}")
        row = find_version(writer, bucket, key, version_id)
        shown_id = version_id if is_versioned else None
        if row is None:
            return Deleted(key, shown_id, is_marker=False)
        self._remove(writer, row)
        if current is not None and current.version_id == row.version_id:
            before = writer.newest(bucket, key, excluding=row.version_id)
            if before is None:
                writer.clear_current(bucket, key)
            else:
                writer.set_current(before)
        return Deleted(key, shown_id, is_marker=row.state is State.DELETED)

    def _manifest(self, bucket: BucketInfo, key: str, state: State, new: NewVersion) -> Manifest:
        now_ms = self._clock.wall_ns() // NS_PER_MS
        return Manifest(
            bucket=bucket.name,
            key=key,
            version_id=new_version_id(now_ms, self._random),
            size=new.size,
            chunks=new.chunks,
            state=state,
            etag=new.etag,
            modified_ms=now_ms,
            is_null=bucket.versioning is not Versioning.ENABLED,
            content=new.content,
            checksums=new.checksums,
            part_sizes=new.part_sizes,
            tags=new.tags,
            hlc=str(self._clock.now()),
            site_id=self._site_id,
        )

    def _make_way(self, writer: Writer, manifest: Manifest) -> None:
        """Removes the key's null version if `manifest` is a null version, which replaces it."""
        if manifest.is_null:
            replaced = writer.null_version(manifest.bucket, manifest.key)
            if replaced is not None:
                writer.remove_version(replaced.version_id)

    def _add(self, writer: Writer, manifest: Manifest, kind: str) -> None:
        self._make_way(writer, manifest)
        row = row_of(manifest)
        writer.add_version(row, encode(manifest))
        writer.set_current(row)
        self._note(writer, kind, row, hlc=manifest.hlc)

    def _remove(self, writer: Writer, row: VersionRow) -> None:
        writer.remove_version(row.version_id)
        self._note(writer, REMOVE, row, hlc=str(self._clock.now()))

    def _note(self, writer: Writer, kind: str, row: VersionRow, *, hlc: str) -> None:
        writer.add_oplog(
            hlc=hlc,
            site_id=self._site_id,
            op=kind,
            bucket=row.bucket,
            key=row.key,
            version_id=row.version_id,
        )


def new_version_id(now_ms: int, random: Random) -> str:
    """Returns a new version id, whose first digits are derived from the time.

    So the database index entries of versions in one commit are close to each other. The first two
    digits select the folder of the manifest file and change about once a second.
    """
    return f"{now_ms >> 10 & 0xFF:02x}{now_ms:012x}{random.getrandbits(72):018x}"


def require_bucket(reader: Reader, name: str) -> BucketInfo:
    bucket = reader.bucket(name)
    if bucket is None:
        raise no_bucket(name)
    return bucket


def no_bucket(name: str) -> NoSuchBucket:
    return NoSuchBucket(f"bucket {shown(name)} does not exist")


def find_version(reader: Reader, bucket: str, key: str, version_id: str) -> VersionRow | None:
    """Returns the version with the id that clients use, or None if there is none.

    The null version of a key is found only as `null`, not by its internal id.
    """
    if version_id == NULL_VERSION:
        return reader.null_version(bucket, key)
    if not version_id.isascii():
        return None  # version ids are ASCII; other text might not even be valid Unicode
    row = reader.version(bucket, key, version_id)
    return None if row is None or row.is_null else row


def check_condition(condition: Condition, row: VersionRow | None, *, what: str) -> None:
    """Raises `PreconditionFailed` if the current version does not meet the condition.

    Raises `NoSuchKey` if the condition is If-Match and there is no object. A delete marker counts
    as no object. `what` names the object in errors.
    """
    exists = row is not None and row.state is not State.DELETED
    if condition.if_none_match is not None and row is not None and exists:
        raise PreconditionFailed(f"{what}: the object already exists, with ETag {row.etag}")
    etag = condition.if_match
    if etag is None:
        return
    if row is None or not exists:
        raise NoSuchKey(f"{what}: the object does not exist")
    if etag not in ("*", row.etag):
        raise PreconditionFailed(f"{what}: the object's ETag is {row.etag}, not {shown(etag)}")


def check_visible(bucket: str, key: str, row: VersionRow | None) -> VersionRow:
    """Returns `row`, the newest version of a key.

    Raises `NoSuchKey` if there is none or it is a delete marker.
    """
    if row is None:
        raise NoSuchKey(f"{bucket}/{shown(key)}: the object does not exist")
    if row.state is State.DELETED:
        marker_id = NULL_VERSION if row.is_null else row.version_id
        raise NoSuchKey(f"{bucket}/{shown(key)}: the object was deleted", marker_id=marker_id)
    return row


def row_of(manifest: Manifest) -> VersionRow:
    return VersionRow(
        version_id=manifest.version_id,
        bucket=manifest.bucket,
        key=manifest.key,
        state=manifest.state,
        is_null=manifest.is_null,
        etag=manifest.etag,
        size=manifest.size,
        content_type=manifest.content.content_type,
        modified_ms=manifest.modified_ms,
        hlc=manifest.hlc,
        site_id=manifest.site_id,
    )


def info_of(manifest: Manifest, *, is_latest: bool, state: State | None = None) -> ObjectInfo:
    """Returns the metadata of a version from its manifest.

    `state` is that of the version's row, which may have changed after the manifest was written; if
    it is None, the state in the manifest is used.
    """
    return ObjectInfo(
        bucket=manifest.bucket,
        key=manifest.key,
        version_id=manifest.version_id,
        is_null=manifest.is_null,
        is_latest=is_latest,
        state=state or manifest.state,
        etag=manifest.etag,
        size=manifest.size,
        modified_ms=manifest.modified_ms,
        content=manifest.content,
        checksums=manifest.checksums,
        part_sizes=manifest.part_sizes,
    )
