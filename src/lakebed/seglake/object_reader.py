"""Reads and lists objects, and verifies each chunk that is read.

No byte is returned before the BLAKE3 hash of its whole chunk was checked. If a chunk is damaged,
the read raises `Damaged` and, if the store is open for writing, marks the version as damaged.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple, Protocol, TypeVar

from lakebed.base.runner import Runner
from lakebed.base.units import KIB, shown
from lakebed.seglake.chunk_reader import ChunkReader, FilePlace
from lakebed.seglake.conditions import ReadCondition
from lakebed.seglake.config import SeglakeConfig
from lakebed.seglake.errors import Damaged, MethodNotAllowed, NoSuchVersion
from lakebed.seglake.listing import ListedVersion, list_objects, list_versions
from lakebed.seglake.manifest import Manifest, decode
from lakebed.seglake.manifest_cache import ManifestCache
from lakebed.seglake.meta.reader import Reader
from lakebed.seglake.meta.rows import VersionRow
from lakebed.seglake.meta.snapshots import Snapshots
from lakebed.seglake.model import NULL_VERSION, Chunk, ObjectInfo, Page, State, Versioning
from lakebed.seglake.ranges import ByteRange
from lakebed.seglake.versions import check_visible, find_version, info_of, require_bucket

LISTED_MAX = 1000
PLACED_BYTES_MIN = 256 * KIB  # smaller pieces are cheap to copy

Read = TypeVar("Read")


class MarkDamaged(Protocol):
    def __call__(self, version_id: str, *, waits: bool) -> None:
        """Called when a read finds damage. A store that is open for writing marks the version.

        With `waits`, returns only after the mark is committed or has failed.
        """


class FoundVersion(NamedTuple):
    """A version and its manifest, and whether it is the newest version of its key."""

    row: VersionRow
    manifest: Manifest
    is_latest: bool

    @property
    def info(self) -> ObjectInfo:
        return info_of(self.manifest, is_latest=self.is_latest, state=self.row.state)


class ObjectReader:
    """A range of bytes of a version. Each iteration yields the whole range.

    Every chunk is verified, by that iteration or when it was added to the cache. Iteration raises
    `Damaged` if a chunk is missing or damaged.
    """

    def __init__(
        self,
        version: FoundVersion,
        chunks: ChunkReader,
        *,
        start: int,
        end: int,
        mark_damaged: MarkDamaged,
        waits: bool = True,
    ) -> None:
        self.info = version.info
        self._found = version
        self.start = start
        self.end = end
        self._chunks = chunks
        self._mark_damaged = mark_damaged
        self._waits = waits

    def __len__(self) -> int:
        return self.end - self.start

    def __iter__(self) -> Iterator[memoryview]:
        for chunk, start, end in self._cuts():
            yield self._verified(self._chunks.read, chunk)[start:end]

    def places(self) -> Iterator[memoryview | FilePlace]:
        """Yields the same bytes as iteration, but large pieces as file ranges if possible.

        The caller must release each file range.
        """
        for chunk, start, end in self._cuts():
            file_range = None
            if end - start >= PLACED_BYTES_MIN:
                file_range = self._verified(self._chunks.locate, chunk)
            if file_range is None:
                yield self._verified(self._chunks.read, chunk)[start:end]
            else:
                file_range.cut(start, end)
                yield file_range

    def _cuts(self) -> Iterator[tuple[Chunk, int, int]]:
        """Yields each chunk of the range, with the start and end of the range within the chunk."""
        position = 0  # of the chunk in the object
        for chunk in self._found.manifest.chunks:
            if position >= self.end:
                return
            if position + chunk.length > self.start:
                yield chunk, max(self.start - position, 0), min(self.end - position, chunk.length)
            position += chunk.length

    def _verified(self, read: Callable[[Chunk], Read], chunk: Chunk) -> Read:
        try:
            return read(chunk)
        except Damaged:
            if self.info.state is not State.DAMAGED:
                self._mark_damaged(self.info.version_id, waits=self._waits)
            raise

    def between(self, start: int, end: int) -> ObjectReader:
        """Returns a reader of another range of the same version.

        The range goes from `start` up to, but not including, `end`. Both are offsets in the whole
        version, not in the range of this reader.
        """
        return ObjectReader(
            self._found,
            self._chunks,
            start=start,
            end=end,
            mark_damaged=self._mark_damaged,
            waits=self._waits,
        )

    def read(self) -> bytes:
        """Returns all bytes of the range."""
        return b"".join(self)


class ReadableObjects:
    """Reads and lists objects. Thread-safe; reads do not wait for writes."""

    def __init__(
        self,
        database: Snapshots,
        chunks: ChunkReader,
        *,
        mark_damaged: MarkDamaged,
        runner: Runner,
        config: SeglakeConfig,
    ) -> None:
        self._hides_null_versions = config.spec_version_listing
        self._manifests = ManifestCache(mutex=runner.mutex())
        self.read_count = 0  # approximate; background work slows down while reads are running
        self._database = database
        self._chunks = chunks
        self._mark_damaged = mark_damaged

    def head(self, bucket: str, key: str, *, version_id: str | None = None) -> ObjectInfo:
        """Returns the metadata of a version, by default of the newest.

        Raises `NoSuchBucket`, `NoSuchKey` or `NoSuchVersion` if it does not exist, `NoSuchKey` if
        the newest version is a delete marker, and `MethodNotAllowed` if `version_id` is one.
        """
        return self._find(bucket, key, version_id).info

    def get(
        self,
        bucket: str,
        key: str,
        *,
        version_id: str | None = None,
        byte_range: ByteRange | None = None,
        condition: ReadCondition | None = None,
        waits: bool = True,
    ) -> ObjectReader:
        """Returns a reader of one version, by default the newest. Later writes do not affect it.

        If the reader finds damage, it waits until the version is marked as damaged. Pass `waits` as
        False where it must not wait, such as in the thread of an event loop. Raises the errors of
        `head`; `BadRange` if no byte of the object is in `byte_range`; and `PreconditionFailed` or
        `NotModified` if the object does not meet `condition`.
        """
        version = self._find(bucket, key, version_id)
        manifest = version.manifest
        if condition is not None:
            condition.check(etag=manifest.etag, modified_ms=manifest.modified_ms)
        start, end = 0, manifest.size
        if byte_range is not None:
            start, end = byte_range.resolve(manifest.size)
        return ObjectReader(
            version,
            self._chunks,
            start=start,
            end=end,
            mark_damaged=self._mark_damaged,
            waits=waits,
        )

    def _find(self, bucket: str, key: str, version_id: str | None) -> FoundVersion:
        # Finding the newest version takes one query, so it needs no snapshot. If there is none, a
        # second query looks for the bucket; a change between the two does not cause a wrong result.
        self.read_count += 1
        read = self._database.query if version_id is None else self._database.snapshot
        with read() as reader:
            return require_object(reader, bucket, key, version_id, decoded=self._manifests.decoded)

    def list(
        self,
        bucket: str,
        *,
        prefix: str = "",
        delimiter: str = "",
        after: str = "",
        max_keys: int = LISTED_MAX,
    ) -> Page[VersionRow]:
        """Returns a page of objects, and of common prefixes, that come after the marker `after`."""
        with self._database.snapshot() as reader:
            require_bucket(reader, bucket)
            return list_objects(
                reader, bucket, prefix=prefix, delimiter=delimiter, after=after, max_keys=max_keys
            )

    def list_versions(
        self,
        bucket: str,
        *,
        prefix: str = "",
        delimiter: str = "",
        key_marker: str = "",
        version_id_marker: str | None = None,
        max_keys: int = LISTED_MAX,
    ) -> Page[ListedVersion]:
        """Returns a page of versions and delete markers, newest first within a key.

        In an unversioned bucket these are the null versions, or none if the setting
        `spec_version_listing` is true.
        """
        with self._database.snapshot() as reader:
            is_unversioned = require_bucket(reader, bucket).versioning is Versioning.DISABLED
            if is_unversioned and self._hides_null_versions:
                return Page([], [])
            return list_versions(
                reader,
                bucket,
                prefix=prefix,
                delimiter=delimiter,
                key_marker=key_marker,
                version_id_marker=version_id_marker,
                max_keys=max_keys,
            )


class DecodeManifest(Protocol):
    def __call__(self, version_id: str, data: bytes, /, *, path: str) -> Manifest: ...


def decode_anew(_version_id: str, data: bytes, *, path: str) -> Manifest:
    return decode(data, path=path)


def require_object(
    reader: Reader,
    bucket: str,
    key: str,
    version_id: str | None,
    *,
    decoded: DecodeManifest = decode_anew,
) -> FoundVersion:
    """Returns the given version, or the newest if `version_id` is None.

    Raises `NoSuchBucket`, `NoSuchKey` or `NoSuchVersion` if it does not exist. A delete marker
    raises `NoSuchKey` if it is the newest version, and `MethodNotAllowed` if it was requested by
    id.
    """
    object_name = f"{bucket}/{shown(key)}"
    if version_id is None:
        current = reader.current_manifest(bucket, key)
        if current is None:
            require_bucket(reader, bucket)
        newest = check_visible(bucket, key, None if current is None else current[0])
        assert current is not None
        manifest = decoded(newest.version_id, current[1], path=object_name)
        return FoundVersion(newest, manifest, is_latest=True)
    require_bucket(reader, bucket)
    row = find_version(reader, bucket, key, version_id)
    if row is None:
        raise NoSuchVersion(f"{object_name}: version {shown(version_id)} does not exist")
    if row.state is State.DELETED:
        marker_id = NULL_VERSION if row.is_null else row.version_id
        raise MethodNotAllowed(
            f"{object_name}: version {marker_id} is a delete marker, which cannot be read",
            marker_id=marker_id,
            modified_ms=row.modified_ms,
        )
    data = reader.manifest(row.version_id)
    assert data is not None, "every version has a manifest"
    current_row = reader.current(bucket, key)
    is_latest = current_row is not None and current_row.version_id == row.version_id
    manifest = decoded(row.version_id, data, path=object_name)
    return FoundVersion(row, manifest, is_latest=is_latest)
