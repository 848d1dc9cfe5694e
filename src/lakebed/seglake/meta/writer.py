"""What can be changed inside the one transaction that writes, and asked there as well.

Each change is a statement or two and keeps the tables in step with one another; which changes
make up a request is decided elsewhere. They are durable when the transaction is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple

from lakebed.seglake.meta import statements
from lakebed.seglake.meta.reader import Reader
from lakebed.seglake.meta.rows import ApiKeyRow, PartRow, SegmentRow, UploadRow, VersionRow
from lakebed.seglake.model import BucketInfo, State, Versioning


class Writer(Reader):
    """Not to be used after its transaction, nor by two threads at once."""

    # Buckets.

    def add_bucket(self, bucket: BucketInfo) -> None:
        row = (bucket.name, bucket.created_ms, bucket.versioning.value)
        self._execute(statements.ADD_BUCKET, row)

    def remove_markers(self, bucket: str, limit: int) -> int:
        """Remove the first versions of a bucket, at most so many, which are delete markers; returns
        how many."""
        assert self.starts_with_markers(bucket, limit), "they have data"
        self._execute(statements.DISCARD_MARKER_MANIFESTS, (bucket, limit))
        self._execute(statements.REMOVE_MARKERS, (bucket, limit))
        return self.connection.changes()

    def remove_uploads(self, bucket: str, limit: int) -> int:
        """Remove uploads with their parts until that many rows are gone, or all; returns how many.

        An upload goes as a whole, and has up to 10,000 parts.
        """
        removed = 0
        for (upload_id,) in self._execute(statements.FIRST_UPLOADS, (bucket, limit)).fetchall():
            if removed >= limit:
                break
            self._execute(statements.REMOVE_PARTS, (upload_id,))
            removed += self.connection.changes() + 1
            self._execute(statements.REMOVE_UPLOAD, (upload_id,))
        return removed

    def remove_bucket(self, name: str) -> None:
        """With its policy and its uploads. It has no version any more, and no delete marker."""
        for sql in (
            statements.REMOVE_BUCKET_PARTS,
            statements.REMOVE_BUCKET_UPLOADS,
            statements.REMOVE_BUCKET_POLICY,
            statements.REMOVE_BUCKET,
        ):
            self._execute(sql, (name,))

    def set_versioning(self, name: str, versioning: Versioning) -> None:
        self._execute(statements.SET_VERSIONING, (versioning.value, name))

    # Versions.

    def add_version(self, row: VersionRow, manifest: bytes) -> None:
        """Its manifest's file is to be written from now on. Not current before `set_current`."""
        self._execute(statements.ADD_MANIFEST, (row.version_id, manifest))
        self._execute(statements.ADD_VERSION, _values(row))

    def add_objects(self, objects: Sequence[tuple[VersionRow, bytes]], *, op: str) -> None:
        """Versions with data and their manifests: each becomes current, and is in the oplog.

        The same as `add_version`, `set_current` and `add_oplog` of one after the other, with few
        statements.
        """
        start = 0
        for count in statements.AT_ONCE:
            while len(objects) - start >= count:
                self._add_at_once(objects[start : start + count], op)
                start += count

    def _add_at_once(self, objects: Sequence[tuple[VersionRow, bytes]], op: str) -> None:
        manifests: list[str | bytes] = []
        for row, manifest in objects:
            manifests += (row.version_id, manifest)
        count = len(objects)
        self._execute(statements.ADD_MANIFESTS[count], manifests)
        first_id = self.connection.last_insert_rowid() - count + 1  # they follow one another
        versions: list[str | bytes | int | None] = []
        oplog: list[str | bytes | int] = []
        for manifest_id, (row, _) in enumerate(objects, first_id):
            values = _values(row)
            versions.append(manifest_id)
            versions += values
            oplog += (row.hlc, row.site_id, op, row.bucket, values[2], row.version_id, 0)
        self._execute(statements.ADD_VERSIONS[count], versions)
        self._execute(statements.SET_CURRENTS[count], versions)
        self._execute(statements.ADD_OPLOGS[count], oplog)

    def set_current(self, row: VersionRow) -> None:
        """It must be the newest of its key. If it is a delete marker, there is no object."""
        if row.state is State.DELETED:
            self.clear_current(row.bucket, row.key)
        else:
            self._execute(statements.SET_CURRENT, _values(row))

    def clear_current(self, bucket: str, key: str) -> None:
        self._execute(statements.CLEAR_CURRENT, (bucket, key.encode()))

    def remove_version(self, version_id: str) -> None:
        """For good; its manifest's file is to be removed. What is current is not changed."""
        self._execute(statements.REMOVE_VERSION, (version_id,))
        self._execute(statements.DISCARD_MANIFEST, (version_id,))

    def set_state(self, version_id: str, state: State) -> None:
        """Of a version with data: it does not become a delete marker, nor was it one."""
        assert state is not State.DELETED, "a delete marker is a version of its own"
        place = self._execute(statements.SET_STATE, (state.value, version_id)).fetchall()
        for bucket, key in place:
            self._execute(statements.SET_CURRENT_STATE, (state.value, bucket, key, version_id))

    def mark_manifest_files(
        self, *, written: Sequence[str] = (), removed: Sequence[str] = ()
    ) -> None:
        """By version id. What was removed while its file was written stays to be removed."""
        self.connection.executemany(statements.MARK_WRITTEN, [(one,) for one in written])
        self.connection.executemany(statements.MARK_REMOVED, [(one,) for one in removed])

    # Segments.

    def put_segment(self, row: SegmentRow) -> None:
        """In any order: a sealed segment stays sealed, a durable length never shrinks."""
        self._execute(statements.PUT_SEGMENT, row)

    # Multipart uploads.

    def add_upload(self, row: UploadRow) -> None:
        self._execute(statements.ADD_UPLOAD, (*row[:2], row.key.encode(), *row[3:]))

    def remove_upload(self, upload_id: str) -> None:
        """With its parts."""
        self._execute(statements.REMOVE_PARTS, (upload_id,))
        self._execute(statements.REMOVE_UPLOAD, (upload_id,))

    def put_part(self, row: PartRow) -> None:
        """In the place of an earlier one of that number."""
        self._execute(statements.PUT_PART, astuple(row))

    # Access keys.

    def add_api_key(self, row: ApiKeyRow) -> None:
        self._execute(statements.ADD_API_KEY, row)

    def enable_api_key(self, access_key: str, *, is_enabled: bool) -> None:
        self._execute(statements.ENABLE_API_KEY, (is_enabled, access_key))

    def note_use_of_api_key(self, access_key: str, used_ms: int) -> None:
        """The latest counts, in whatever order they are told."""
        self._execute(statements.NOTE_USE_OF_API_KEY, (used_ms, access_key))

    # The operation log.

    def add_oplog(
        self,
        *,
        hlc: str,
        site_id: str,
        op: str,
        bucket: str,
        key: str = "",
        version_id: str = "",
        size: int = 0,
    ) -> None:
        """`hlc` and `site_id` together are given once; `size` is what has to be sent for it."""
        row = (hlc, site_id, op, bucket, key.encode(), version_id, size)
        self._execute(statements.ADD_OPLOG, row)


def _values(
    row: VersionRow,
) -> tuple[str, str, bytes, str, bool, str, int, str | None, int, str, str]:
    return (
        row.version_id,
        row.bucket,
        row.key.encode(),
        row.state.value,
        row.is_null,
        row.etag,
        row.size,
        row.content_type,
        row.modified_ms,
        row.hlc,
        row.site_id,
    )
