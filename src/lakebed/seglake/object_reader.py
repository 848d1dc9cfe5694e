"""Objects on their way out: found in one snapshot, and verified chunk by chunk.

No byte leaves before the BLAKE3 of its whole chunk was checked. A chunk that is damaged ends the
reading with `Damaged` and marks the version.
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
PLACED_BYTES_MIN = 256 * KIB  # what is smaller is cheap to copy

Read = TypeVar("Read")


class MarkDamaged(Protocol):
    def __call__(self, version_id: str, *, waits: bool) -> None:
        """Note the damage; if it `waits`, durably, as far as that is possible."""


class FoundVersion(NamedTuple):
    """A version and its manifest."""

    row: VersionRow
    manifest: Manifest
    is_latest: bool

    @property
    def info(self) -> ObjectInfo:
        return info_of(self.manifest, is_latest=self.is_latest, state=self.row.state)


class ObjectReader:
    """Some bytes of a version, to be iterated once or more; each piece is verified."""

    def __init__(
        self,
        found: FoundVersion,
        chunks: ChunkReader,
        *,
        start: int,
        end: int,
        mark_damaged: MarkDamaged,
        waits: bool = True,
    ) -> None:
        self.info = found.info
        self._found = found
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
        """The same bytes: large pieces as places in files, to be released by whoever gets them."""
        for chunk, start, end in self._cuts():
            place = None
            if end - start >= PLACED_BYTES_MIN:
                place = self._verified(self._chunks.locate, chunk)
            if place is None:
                yield self._verified(self._chunks.read, chunk)[start:end]
            else:
                place.cut(start, end)
                yield place

    def _cuts(self) -> Iterator[tuple[Chunk, int, int]]:
        """The chunks that are read, and which of their bytes."""
        place = 0  # of the chunk in the object
        for chunk in self._found.manifest.chunks:
            if place >= self.end:
                return
            if place + chunk.length > self.start:
                yield chunk, max(self.start - place, 0), min(self.end - place, chunk.length)
            place += chunk.length

    def _verified(self, read: Callable[[Chunk], Read], chunk: Chunk) -> Read:
        try:
            return read(chunk)
        except Damaged:
            if self.info.state is not State.DAMAGED:
                self._mark_damaged(self.info.version_id, waits=self._waits)
            raise

    def between(self, start: int, end: int) -> ObjectReader:
        """Other bytes of the same version."""
        return ObjectReader(
            self._found,
            self._chunks,
            start=start,
            end=end,
            mark_damaged=self._mark_damaged,
            waits=self._waits,
        )

    def read(self) -> bytes:
        """All of it."""
        return b"".join(self)


class ReadableObjects:
    """Thread-safe; readers never wait for writers."""

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
        self.read_count = 0  # about: for whoever works beside reads
        self._database = database
        self._chunks = chunks
        self._mark_damaged = mark_damaged

    def head(self, bucket: str, key: str, *, version_id: str | None = None) -> ObjectInfo:
        """`MethodNotAllowed` for a delete marker that was asked for by its id."""
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
        """What is read is one version, whatever is written meanwhile.

        A reader that finds damage waits until that is noted, unless `waits` is false: as in the
        thread of an event loop, or in one of few threads.
        """
        found = self._find(bucket, key, version_id)
        manifest = found.manifest
        if condition is not None:
            condition.check(etag=manifest.etag, modified_ms=manifest.modified_ms)
        start, end = 0, manifest.size
        if byte_range is not None:
            start, end = byte_range.resolve(manifest.size)
        return ObjectReader(
            found,
            self._chunks,
            start=start,
            end=end,
            mark_damaged=self._mark_damaged,
            waits=waits,
        )

    def _find(self, bucket: str, key: str, version_id: str | None) -> FoundVersion:
        # The newest version is found by one question. If it is not there, that stays true of
        # that moment, whatever the next question (is there such a bucket?) finds.
        self.read_count += 1
        ask = self._database.query if version_id is None else self._database.snapshot
        with ask() as reader:
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
        """A page of the objects whose keys are behind `after`."""
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
        """A page of all versions and delete markers, a key's newest first.

        In an unversioned bucket these are the null versions, or none with `spec_version_listing`.
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
    """A version that has bytes: the one asked for, or the newest."""
    where = f"{bucket}/{shown(key)}"
    if version_id is None:
        current = reader.current_manifest(bucket, key)
        if current is None:
            require_bucket(reader, bucket)
        row = check_visible(bucket, key, None if current is None else current[0])
        assert current is not None
        manifest = decoded(row.version_id, current[1], path=where)
        return FoundVersion(row, manifest, is_latest=True)
    require_bucket(reader, bucket)
    found = find_version(reader, bucket, key, version_id)
    if found is None:
        raise NoSuchVersion(f"{where}: there is no version {shown(version_id)}")
    if found.state is State.DELETED:
        marker_id = NULL_VERSION if found.is_null else found.version_id
        raise MethodNotAllowed(
            f"{where}: that version is a delete marker",
            marker_id=marker_id,
            modified_ms=found.modified_ms,
        )
    data = reader.manifest(found.version_id)
    assert data is not None, "every version has a manifest"
    newest = reader.current(bucket, key)
    is_latest = newest is not None and newest.version_id == found.version_id
    manifest = decoded(found.version_id, data, path=where)
    return FoundVersion(found, manifest, is_latest=is_latest)
