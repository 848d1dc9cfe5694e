"""What can be asked of the metadata inside one transaction: a consistent snapshot.

Small typed questions, one statement each; what they mean for a request is decided elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from operator import index
from typing import Any

import apsw

from lakebed.base.clock import HybridTime
from lakebed.base.errors import Corrupt
from lakebed.seglake.meta import statements
from lakebed.seglake.meta.rows import (
    ApiKeyRow,
    OplogRow,
    PartRow,
    PendingManifest,
    SegmentRow,
    Totals,
    UploadRow,
    VersionRow,
)
from lakebed.seglake.model import BucketInfo, State, Versioning

KEYS_END = b"\xff"  # behind every key: no UTF-8 begins with it

_STATES = {state.value: state for state in State}
_VERSIONINGS = {versioning.value: versioning for versioning in Versioning}
# What decoding a damaged row raises: SQLite returns any type for any column of one.
_DAMAGED = (AttributeError, KeyError, TypeError, UnicodeDecodeError)


def key_bytes(text: str) -> bytes:
    """As it is stored. What is no key, and never stored, can still be looked for."""
    return text.encode("utf-8", "surrogatepass")


class Reader:
    """Not to be used after its transaction, nor by two threads at once."""

    def __init__(self, connection: apsw.Connection) -> None:
        self.connection = connection
        self._execute = connection.execute

    # Buckets.

    def site_id(self) -> str:
        """Made when the database was, and never changed."""
        found: str = self._execute(statements.SITE_ID).get
        return found

    def bucket(self, name: str) -> BucketInfo | None:
        row = self._execute(statements.BUCKET, (name,)).fetchone()
        return None if row is None else _bucket(row)

    def buckets(self) -> list[BucketInfo]:
        """By name."""
        return [_bucket(row) for row in self._execute(statements.BUCKETS)]

    def is_empty(self, bucket: str) -> bool:
        """Whether it has no version with data. Delete markers and uploads do not count."""
        has_data: int = self._execute(statements.HAS_DATA, (bucket,)).get
        return not self.has_objects(bucket) and not has_data

    def has_objects(self, bucket: str) -> bool:
        found: int = self._execute(statements.HAS_OBJECTS, (bucket,)).get
        return bool(found)

    def starts_with_markers(self, bucket: str, count: int) -> bool:
        """Whether that many of its versions, the first by key, are all delete markers."""
        found = self._execute(statements.FIRST_STATES, (bucket, count))
        return all(state == State.DELETED.value for (state,) in found)

    # Versions.

    def current(self, bucket: str, key: str) -> VersionRow | None:
        """The newest version: it may be a delete marker."""
        row = self._execute(statements.CURRENT, (bucket, key_bytes(key))).fetchone()
        return self._marker(bucket, key) if row is None else _version(row)

    def current_manifest(self, bucket: str, key: str) -> tuple[VersionRow, bytes] | None:
        """The newest version with its manifest: one statement, unless it is a marker or none."""
        row = self._execute(statements.CURRENT_WITH_MANIFEST, (bucket, key_bytes(key))).fetchone()
        if row is not None:
            return _version(row), row[11]
        marker = self._marker(bucket, key)
        data = None if marker is None else self.manifest(marker.version_id)
        return None if marker is None or data is None else (marker, data)

    def version(self, bucket: str, key: str, version_id: str) -> VersionRow | None:
        row = self._execute(statements.VERSION, (version_id,)).fetchone()
        if row is None or row[1] != bucket or row[2] != key_bytes(key):
            return None
        return _version(row)

    def null_version(self, bucket: str, key: str) -> VersionRow | None:
        row = self._execute(statements.NULL_VERSION, (bucket, key_bytes(key))).fetchone()
        return None if row is None else _version(row)

    def newest(self, bucket: str, key: str, *, excluding: str = "") -> VersionRow | None:
        for row in self._execute(statements.NEWEST, (bucket, key_bytes(key))).fetchall():
            if row[0] != excluding:
                return _version(row)
        return None

    def last_hlc(self) -> HybridTime | None:
        """The largest that was ever stored, of the last change: where the hybrid clock goes on."""
        found: str | None = self._execute(statements.LAST_HLC).get
        return None if found is None else HybridTime.parse(found)

    def has_history(self) -> bool:
        """Whether any change was ever recorded."""
        return bool(self._execute(statements.HAS_HISTORY).get)

    # Ranges, in order, fetched row by row: stop whenever enough was seen.

    def current_from(self, bucket: str, *, start: bytes, end: bytes) -> Iterator[VersionRow]:
        """The objects with keys in `[start, end)`. Delete markers are not even stepped over."""
        return map(_version, self._execute(statements.CURRENT_FROM, (bucket, start, end)))

    def versions_from(self, bucket: str, *, start: bytes, end: bytes) -> Iterator[VersionRow]:
        """All versions of keys in `[start, end)`, a key's newest first."""
        return map(_version, self._execute(statements.VERSIONS_FROM, (bucket, start, end)))

    def versions_older(self, row: VersionRow) -> Iterator[VersionRow]:
        """The versions of the same key before that one, newest first."""
        return self.versions_before(row.bucket, row.key, hlc=row.hlc, site_id=row.site_id)

    def versions_before(
        self, bucket: str, key: str, *, hlc: str, site_id: str
    ) -> Iterator[VersionRow]:
        """The same of a version that need not be there any more."""
        place = (bucket, key_bytes(key), hlc, site_id)
        return map(_version, self._execute(statements.VERSIONS_OLDER, place))

    def uploads_from(self, bucket: str, *, start: bytes, end: bytes) -> Iterator[UploadRow]:
        """The uploads to keys in `[start, end)`, by key and upload id."""
        return map(_upload, self._execute(statements.UPLOADS_FROM, (bucket, start, end)))

    def uploads_after(self, bucket: str, key: str, *, upload_id: str) -> Iterator[UploadRow]:
        """The uploads to that key behind that one."""
        place = (bucket, key_bytes(key), upload_id)
        return map(_upload, self._execute(statements.UPLOADS_AFTER, place))

    # Manifests and segments.

    def manifest(self, version_id: str) -> bytes | None:
        row = self._execute(statements.MANIFEST, (version_id,)).fetchone()
        return None if row is None else row[0]

    def manifest_file(self, version_id: str) -> PendingManifest | None:
        """The manifest, and how far its file is."""
        row = self._execute(statements.MANIFEST_WITH_STATE, (version_id,)).fetchone()
        return None if row is None else PendingManifest(*row)

    def manifests(self, after: str = "", limit: int = 1000) -> list[tuple[str, bytes]]:
        """By version id, those behind `after`."""
        found = self._execute(statements.MANIFESTS_AFTER, (after, limit))
        return [(version_id, data) for version_id, data in found]

    def pending_manifests(self, limit: int) -> list[PendingManifest]:
        """Those whose files are behind, the oldest first."""
        found = self._execute(statements.PENDING_MANIFESTS, (limit,))
        return [PendingManifest(*row) for row in found]

    def segments(self) -> list[SegmentRow]:
        """By id, which is by age."""
        return [_segment(row) for row in self._execute(statements.SEGMENTS)]

    # Multipart uploads.

    def upload(self, upload_id: str) -> UploadRow | None:
        row = self._execute(statements.UPLOAD, (upload_id,)).fetchone()
        return None if row is None else _upload(row)

    def parts(self, upload_id: str, after: int = 0, limit: int = 1000) -> list[PartRow]:
        """By number, those behind `after`."""
        found = self._execute(statements.PARTS, (upload_id, after, limit))
        return [_part(row) for row in found]

    def part_bytes(self, upload_id: str, *, excluding: int) -> int:
        """Of all parts of an upload but the one of that number."""
        found: int = self._execute(statements.PART_BYTES, (upload_id, excluding)).get
        return found

    def parts_by_id(self, after: int = 0, limit: int = 1000) -> list[tuple[int, PartRow]]:
        """Of all uploads, with the number of the row, behind which the next ones are."""
        found = self._execute(statements.PARTS_BY_ID, (after, limit))
        return [(row[0], _part(row[1:])) for row in found]

    # Access keys.

    def api_key(self, access_key: str) -> ApiKeyRow | None:
        row = self._execute(statements.API_KEY, (access_key,)).fetchone()
        return None if row is None else _api_key(row)

    def api_keys(self) -> list[ApiKeyRow]:
        """The oldest first."""
        found = map(_api_key, self._execute(statements.API_KEYS))
        return sorted(found, key=lambda row: (row.created_ms, row.access_key))

    # The operation log, and the database itself.

    def oplog(self, after: int = 0, limit: int = 1000) -> list[OplogRow]:
        """In the order of happening, those behind the sequence number `after`."""
        found = self._execute(statements.OPLOG_AFTER, (after, limit))
        return [OplogRow._make(row)._replace(key=row[5].decode()) for row in found]

    def totals(self) -> Totals:
        """It reads all rows of some tables, and of others an index."""
        objects: int = self._execute(statements.OBJECT_COUNT).get
        segments: int = self._execute(statements.SEGMENT_COUNT).get
        [(versions, bytes_live)] = self._execute(statements.VERSION_TOTALS)
        manifests: int = self._execute(statements.MANIFEST_COUNT).get
        return Totals(objects, segments, bytes_live, versions, manifests)

    def problems(self) -> list[str]:
        """What SQLite's own check finds; it reads everything."""
        found = [row[0] for row in self._execute(statements.INTEGRITY)]
        return [] if found == ["ok"] else found

    def _marker(self, bucket: str, key: str) -> VersionRow | None:
        newest = self.newest(bucket, key)
        return newest if newest is not None and newest.state is State.DELETED else None


def _bucket(row: tuple[Any, ...]) -> BucketInfo:
    try:
        return BucketInfo(name=row[0], created_ms=index(row[1]), versioning=_VERSIONINGS[row[2]])
    except _DAMAGED as error:
        raise _corrupt(error) from error


def _api_key(row: tuple[Any, ...]) -> ApiKeyRow:
    return ApiKeyRow(row[0], row[1], row[2], row[3] != 0, *row[4:])


def _version(row: tuple[Any, ...]) -> VersionRow:
    try:
        return VersionRow(
            row[0],
            row[1],
            row[2].decode(),
            _STATES[row[3]],
            row[4] != 0,
            row[5],
            index(row[6]),
            row[7],
            index(row[8]),
            row[9],
            row[10],
        )
    except _DAMAGED as error:
        raise _corrupt(error) from error


def _upload(row: tuple[Any, ...]) -> UploadRow:
    try:
        return UploadRow(row[0], row[1], row[2].decode(), index(row[3]), row[4], row[5])
    except _DAMAGED as error:
        raise _corrupt(error) from error


def _part(row: tuple[Any, ...]) -> PartRow:
    part = PartRow(*row)
    return replace(part, size=_size(part.size))


def _segment(row: tuple[Any, ...]) -> SegmentRow:
    segment = SegmentRow(*row)
    return segment._replace(size=_size(segment.size))


def _size(value: Any) -> int:
    try:
        return index(value)
    except TypeError as error:
        raise _corrupt(error) from error


def _corrupt(error: Exception) -> Corrupt:
    return Corrupt(f"a row of the metadata is damaged ({error})")
