"""Objects on their way out: found in one snapshot, and verified chunk by chunk.

No byte leaves before the BLAKE3 of its whole chunk was checked. A chunk that is damaged ends the
reading with `Damaged` and marks the version.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple, Protocol

from lakebed.base.runner import Runner
from lakebed.base.units import shown
from lakebed.seglake.chunk_reader import ChunkReader
from lakebed.seglake.conditions import ReadCondition
from lakebed.seglake.errors import Damaged, MethodNotAllowed, NoSuchVersion
from lakebed.seglake.listing import ListedVersion, Page, list_objects, list_versions
from lakebed.seglake.manifest import Manifest, decode
from lakebed.seglake.manifest_cache import ManifestCache
from lakebed.seglake.meta.reader import Reader
from lakebed.seglake.meta.rows import VersionRow
from lakebed.seglake.meta.snapshots import Snapshots
from lakebed.seglake.model import NULL_VERSION, ObjectInfo, State, Versioning
from lakebed.seglake.ranges import ByteRange
from lakebed.seglake.versions import check_visible, find_version, info_of, require_bucket

LISTED_MAX = 1000

MarkDamaged = Callable[[str], None]
"""Told of a version id."""


class Found(NamedTuple):
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
        found: Found,
        chunks: ChunkReader,
        *,
        start: int,
        end: int,
        mark_damaged: MarkDamaged,
    ) -> None:
        self.info = found.info
        self.start = start
        self.end = end
        self._manifest = found.manifest
        self._chunks = chunks
        self._mark_damaged = mark_damaged

    def __len__(self) -> int:
        return self.end - self.start

    def __iter__(self) -> Iterator[memoryview]:
        place = 0  # of the chunk in the object
        for chunk in self._manifest.chunks:
            if place >= self.end:
                return
            if place + chunk.length > self.start:
                try:
                    data = memoryview(self._chunks.read(chunk))
                except Damaged:
                    self._mark_damaged(self.info.version_id)
                    raise
                yield data[max(self.start - place, 0) : self.end - place]
            place += chunk.length

    def read(self) -> bytes:
        """All of it."""
        return b"".join(self)


class ObjectReading:
    """Thread-safe; readers never wait for writers."""

    def __init__(
        self,
        database: Snapshots,
        chunks: ChunkReader,
        *,
        mark_damaged: MarkDamaged,
        runner: Runner,
    ) -> None:
        self._manifests = ManifestCache(mutex=runner.mutex())
        self._database = database
        self._chunks = chunks
        self._mark_damaged = mark_damaged

    def head(self, bucket: str, key: str, *, version_id: str | None = None) -> ObjectInfo:
        """`MethodNotAllowed` for a delete marker that was asked for by its id."""
        with self._database.reading() as reader:
            return self._require(reader, bucket, key, version_id).info

    def get(
        self,
        bucket: str,
        key: str,
        *,
        version_id: str | None = None,
        byte_range: ByteRange | None = None,
        condition: ReadCondition | None = None,
    ) -> ObjectReader:
        """What is read is one version, whatever is written meanwhile."""
        with self._database.reading() as reader:
            found = self._require(reader, bucket, key, version_id)
        manifest = found.manifest
        if condition is not None:
            condition.check(etag=manifest.etag, modified_ms=manifest.modified_ms)
        start, end = 0, manifest.size
        if byte_range is not None:
            start, end = byte_range.resolve(manifest.size)
        return ObjectReader(
            found, self._chunks, start=start, end=end, mark_damaged=self._mark_damaged
        )

    def _require(self, reader: Reader, bucket: str, key: str, version_id: str | None) -> Found:
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
        with self._database.reading() as reader:
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

        A bucket without versions has none to show.
        """
        with self._database.reading() as reader:
            if require_bucket(reader, bucket).versioning is Versioning.DISABLED:
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


class Decoded(Protocol):
    def __call__(self, version_id: str, data: bytes, /, *, path: str) -> Manifest: ...


def decode_anew(_version_id: str, data: bytes, *, path: str) -> Manifest:
    return decode(data, path=path)


def require_object(
    reader: Reader,
    bucket: str,
    key: str,
    version_id: str | None,
    *,
    decoded: Decoded = decode_anew,
) -> Found:
    """A version that has bytes: the one asked for, or the newest."""
    where = f"{bucket}/{shown(key)}"
    if version_id is None:
        current = reader.current_manifest(bucket, key)
        if current is None:
            require_bucket(reader, bucket)
        row = check_visible(bucket, key, None if current is None else current[0])
        assert current is not None
        manifest = decoded(row.version_id, current[1], path=where)
        return Found(row, manifest, is_latest=True)
    require_bucket(reader, bucket)
    found = find_version(reader, bucket, key, version_id)
    if found is None:
        raise NoSuchVersion(f"{where}: there is no version {shown(version_id)}")
    if found.state is State.DELETED:
        marker_id = NULL_VERSION if found.is_null else found.version_id
        raise MethodNotAllowed(f"{where}: that version is a delete marker", marker_id=marker_id)
    data = reader.manifest(found.version_id)
    assert data is not None, "every version has a manifest"
    newest = reader.current(bucket, key)
    is_latest = newest is not None and newest.version_id == found.version_id
    manifest = decoded(found.version_id, data, path=where)
    return Found(found, manifest, is_latest=is_latest)
