"""The changes of the metadata within a write transaction, in addition to all queries.

Each change is a few statements and keeps the tables consistent with each other; callers decide
which changes make up a request. Changes are durable once the transaction is durable.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple

from lakebed.seglake.meta import statements
from lakebed.seglake.meta.reader import Reader
from lakebed.seglake.meta.rows import ApiKeyRow, PartRow, SegmentRow, UploadRow, VersionRow
from lakebed.seglake.model import BucketInfo, State, Versioning


class Writer(Reader):
    """Reads and changes the metadata through the writer's connection, within a write transaction.

    Not thread-safe.
    """

    # Buckets.

    def add_bucket(self, bucket: BucketInfo) -> None:
        row = (bucket.name, bucket.created_ms, bucket.versioning.value)
        self._execute(statements.ADD_BUCKET, row)

    def remove_markers(self, bucket: str, limit: int) -> int:
        """Removes the first `limit` versions of a bucket, which must all be delete markers.

        Returns the number removed.
        """
        assert self.starts_with_markers(bucket, limit), "a version has data"
        self._execute(statements.DISCARD_MARKER_MANIFESTS, (bucket, limit))
        self._execute(statements.REMOVE_MARKERS, (bucket, limit))
        return self.connection.changes()

    def remove_uploads(self, bucket: str, limit: int) -> int:
        """Removes uploads with their parts until `limit` rows are removed or no upload is left.

        Returns the number of rows removed. This may exceed `limit`, because an upload is always
        removed with all its parts, of which there may be 10,000.
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
        """Removes a bucket with its policy and uploads; it must have no versions left."""
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
        """Adds a version, and schedules its manifest file to be written.

        Does not make it the current version; `set_current` does that.
        """
        self._execute(statements.ADD_MANIFEST, (row.version_id, manifest))
        self._execute(statements.ADD_VERSION, _values(row))

    def add_objects(self, objects: Sequence[tuple[VersionRow, bytes]], *, op: str) -> None:
        """Adds objects with their manifests, and makes each the current version of its key.

        Also adds an entry for each to the operation log, with the operation `op`. Does the same as
        `add_version`, `set_current` and `add_oplog` for each object, but with fewer SQL statements.
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
        first_id = self.connection.last_insert_rowid() - count + 1  # the ids are consecutive
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
        """Records the newest version of a key as the current object.

        If it is a delete marker, the key has no current object.
        """
        if row.state is State.DELETED:
            self.clear_current(row.bucket, row.key)
        else:
            self._execute(statements.SET_CURRENT, _values(row))

    def clear_current(self, bucket: str, key: str) -> None:
        self._execute(statements.CLEAR_CURRENT, (bucket, key.encode()))

    def remove_version(self, version_id: str) -> None:
        """Removes a version, and schedules its manifest file to be removed.

        Does not change which version is recorded as current.
        """
        self._execute(statements.REMOVE_VERSION, (version_id,))
        self._execute(statements.DISCARD_MANIFEST, (version_id,))

    def set_state(self, version_id: str, state: State) -> None:
        """Changes the state of a version. Neither the old nor the new state may be DELETED."""
        assert state is not State.DELETED, "a delete marker is a version of its own"
        updated = self._execute(statements.SET_STATE, (state.value, version_id)).fetchall()
        for bucket, key in updated:
            self._execute(statements.SET_CURRENT_STATE, (state.value, bucket, key, version_id))

    def mark_manifest_files(
        self, *, written: Sequence[str] = (), removed: Sequence[str] = ()
    ) -> None:
        """Records that the manifest files of these version ids were written or removed.

        If a version was removed while its file was being written, the file stays scheduled for
        removal. The row of a removed file is deleted.
        """
        self.connection.executemany(statements.MARK_WRITTEN, [(id_,) for id_ in written])
        self.connection.executemany(statements.MARK_REMOVED, [(id_,) for id_ in removed])

    # Segments.

    def put_segment(self, row: SegmentRow) -> None:
        """Adds or updates the row of a segment.

        A SEALED row always replaces an existing row. An OPEN row replaces an existing row only if
        that is OPEN and has a smaller size.
        """
        self._execute(statements.PUT_SEGMENT, row)

    # Multipart uploads.

    def add_upload(self, row: UploadRow) -> None:
        self._execute(statements.ADD_UPLOAD, (*row[:2], row.key.encode(), *row[3:]))

    def remove_upload(self, upload_id: str) -> None:
        """Removes an upload and its parts."""
        self._execute(statements.REMOVE_PARTS, (upload_id,))
        self._execute(statements.REMOVE_UPLOAD, (upload_id,))

    def put_part(self, row: PartRow) -> None:
        """Adds a part to an upload, or replaces the part with the same number."""
        self._execute(statements.PUT_PART, astuple(row))

    # Access keys.

    def add_api_key(self, row: ApiKeyRow) -> None:
        self._execute(statements.ADD_API_KEY, row)

    def enable_api_key(self, access_key: str, *, is_enabled: bool) -> None:
        self._execute(statements.ENABLE_API_KEY, (is_enabled, access_key))

    def note_use_of_api_key(self, access_key: str, used_ms: int) -> None:
        """Records when an access key was used, unless a later use is already recorded."""
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
        """Appends an entry to the operation log. `hlc` and `site_id` together must be unique.

        `size` is the number of bytes that must be sent to replicate the change; no caller passes it
        yet.
        """
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
