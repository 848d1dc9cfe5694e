"""All SQL statements except the table definitions (`schema`).

Each statement is a constant, never composed at run time, so that a connection prepares it once.
`INDEXED BY` is used where SQLite could choose a worse plan: a missing index then raises an error
instead of making the store slow.

The inserts of a put also exist as statements for several rows (`AT_ONCE`). Fewer statements are
faster, because each one releases Python's global lock and has to wait to get it back.
"""

from __future__ import annotations

AT_ONCE = (16, 4, 1)  # the numbers of rows that such statements insert, largest first


def _at_once(insert: str, row: str) -> dict[int, str]:
    return {count: f"{insert} VALUES {', '.join([row] * count)}" for count in AT_ONCE}


# Settings of a connection.

IS_WAL = "PRAGMA journal_mode"
MAKE_WAL = "PRAGMA journal_mode = wal"
SYNC_FULLY = "PRAGMA synchronous = full"
NO_AUTOMATIC_CHECKPOINT = "PRAGMA wal_autocheckpoint = 0"
WRITER_CACHE = "PRAGMA cache_size = -65536"  # KiB
READER_CACHE = "PRAGMA cache_size = -4096"
QUERY_ONLY = "PRAGMA query_only = 1"
PAGE_BYTES = "PRAGMA page_size"
CHECKPOINT_PASSIVE = "PRAGMA wal_checkpoint(PASSIVE)"
CHECKPOINT_TRUNCATE = "PRAGMA wal_checkpoint(TRUNCATE)"
INTEGRITY = "PRAGMA integrity_check(100)"

# Transactions.

BEGIN_READING = "BEGIN"
BEGIN_WRITING = "BEGIN IMMEDIATE"
COMMIT = "COMMIT"
ROLLBACK = "ROLLBACK"
SAVEPOINT = "SAVEPOINT one"
RELEASE = "RELEASE one"
UNDO = "ROLLBACK TO one"

# Migrations.

APPLICATION_ID = "PRAGMA application_id"
TABLE_COUNT = "SELECT count(*) FROM sqlite_schema"
SCHEMA_VERSION = "SELECT coalesce(max(version), 0) FROM schema_migrations"
CREATE_MIGRATIONS = """
CREATE TABLE IF NOT EXISTS schema_migrations (
    version INTEGER PRIMARY KEY,
    applied_ms INTEGER NOT NULL
) STRICT"""
ADD_MIGRATION = "INSERT INTO schema_migrations (version, applied_ms) VALUES (?, ?)"

# Buckets and the site.

SITE_ID = "SELECT site_id FROM site"
BUCKET = "SELECT name, created_ms, versioning FROM buckets WHERE name = ?"
BUCKETS = "SELECT name, created_ms, versioning FROM buckets ORDER BY name"
ADD_BUCKET = "INSERT INTO buckets (name, created_ms, versioning) VALUES (?, ?, ?)"
SET_VERSIONING = "UPDATE buckets SET versioning = ? WHERE name = ?"
REMOVE_BUCKET = "DELETE FROM buckets WHERE name = ?"
REMOVE_BUCKET_POLICY = "DELETE FROM bucket_policies WHERE bucket = ?"
DISCARD_MARKER_MANIFESTS = """
UPDATE manifests SET file_state = 2, data = NULL
WHERE id IN (
    SELECT id FROM versions INDEXED BY versions_by_key WHERE bucket = ?
    ORDER BY key, hlc DESC, site_id DESC LIMIT ?
)"""
REMOVE_MARKERS = """
DELETE FROM versions
WHERE id IN (
    SELECT id FROM versions INDEXED BY versions_by_key WHERE bucket = ?
    ORDER BY key, hlc DESC, site_id DESC LIMIT ?
)"""
FIRST_STATES = """
SELECT state FROM versions INDEXED BY versions_by_key WHERE bucket = ?
ORDER BY key, hlc DESC, site_id DESC LIMIT ?"""
HAS_OBJECTS = "SELECT EXISTS (SELECT 1 FROM objects_current WHERE bucket = ?)"
HAS_DATA = """
SELECT EXISTS (
    SELECT 1 FROM versions INDEXED BY versions_by_key WHERE bucket = ? AND state <> 'DELETED'
)"""

# Versions and current objects. The order of columns is that of `VersionRow`.

CURRENT = """
SELECT version_id, bucket, key, state, is_null, etag, size, content_type, last_modified_utc,
    hlc, site_id
FROM objects_current WHERE bucket = ? AND key = ?"""
CURRENT_WITH_MANIFEST = """
SELECT c.version_id, c.bucket, c.key, c.state, c.is_null, c.etag, c.size, c.content_type,
    c.last_modified_utc, c.hlc, c.site_id, m.data
FROM objects_current AS c CROSS JOIN manifests AS m ON m.id = c.manifest
WHERE c.bucket = ? AND c.key = ?"""
CURRENT_FROM = """
SELECT version_id, bucket, key, state, is_null, etag, size, content_type, last_modified_utc,
    hlc, site_id
FROM objects_current WHERE bucket = ? AND key >= ? AND key < ? ORDER BY key"""
NEWEST = """
SELECT version_id, bucket, key, state, is_null, etag, size, content_type, last_modified_utc,
    hlc, site_id
FROM versions INDEXED BY versions_by_key WHERE bucket = ? AND key = ?
ORDER BY hlc DESC, site_id DESC LIMIT 2"""
VERSION = """
SELECT v.version_id, v.bucket, v.key, v.state, v.is_null, v.etag, v.size, v.content_type,
    v.last_modified_utc, v.hlc, v.site_id
FROM manifests AS m CROSS JOIN versions AS v ON v.id = m.id WHERE m.version_id = ?"""
NULL_VERSION = """
SELECT version_id, bucket, key, state, is_null, etag, size, content_type, last_modified_utc,
    hlc, site_id
FROM versions INDEXED BY versions_null WHERE bucket = ? AND key = ? AND is_null <> 0"""
VERSIONS_FROM = """
SELECT version_id, bucket, key, state, is_null, etag, size, content_type, last_modified_utc,
    hlc, site_id
FROM versions INDEXED BY versions_by_key WHERE bucket = ? AND key >= ? AND key < ?
ORDER BY key, hlc DESC, site_id DESC"""
VERSIONS_OLDER = """
SELECT version_id, bucket, key, state, is_null, etag, size, content_type, last_modified_utc,
    hlc, site_id
FROM versions INDEXED BY versions_by_key
WHERE bucket = ? AND key = ? AND (hlc, site_id) < (?, ?) ORDER BY hlc DESC, site_id DESC"""
ADD_VERSION = """
INSERT INTO versions (id, version_id, bucket, key, state, is_null, etag, size, content_type,
    last_modified_utc, hlc, site_id)
VALUES (last_insert_rowid(), ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"""
SET_CURRENT = """
INSERT OR REPLACE INTO objects_current (manifest, version_id, bucket, key, state, is_null, etag,
    size, content_type, last_modified_utc, hlc, site_id)
VALUES ((SELECT id FROM manifests WHERE version_id = ?1), ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9,
    ?10, ?11)"""
ADD_VERSIONS = _at_once(
    """INSERT INTO versions (id, version_id, bucket, key, state, is_null, etag, size, content_type,
    last_modified_utc, hlc, site_id)""",
    "(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
)
SET_CURRENTS = _at_once(
    """INSERT OR REPLACE INTO objects_current (manifest, version_id, bucket, key, state, is_null,
    etag, size, content_type, last_modified_utc, hlc, site_id)""",
    "(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
)
CLEAR_CURRENT = "DELETE FROM objects_current WHERE bucket = ? AND key = ?"
REMOVE_VERSION = """
DELETE FROM versions WHERE id = (SELECT id FROM manifests WHERE version_id = ?)"""
SET_STATE = """
UPDATE versions SET state = ? WHERE id = (SELECT id FROM manifests WHERE version_id = ?)
RETURNING bucket, key"""
SET_CURRENT_STATE = """
UPDATE objects_current SET state = ? WHERE bucket = ? AND key = ? AND version_id = ?"""

# Manifests. `file_state`: 0 to be written, 1 written, 2 to be removed.

MANIFEST = "SELECT data FROM manifests WHERE version_id = ?"
MANIFEST_WITH_STATE = "SELECT version_id, file_state, data FROM manifests WHERE version_id = ?"
MANIFESTS_AFTER = """
SELECT version_id, data FROM manifests WHERE version_id > ? AND data IS NOT NULL
ORDER BY version_id LIMIT ?"""
WRITTEN_MANIFESTS = """
SELECT version_id, data FROM manifests
WHERE file_state = 1 AND version_id > ? ORDER BY version_id LIMIT ?"""
PENDING_MANIFESTS = """
SELECT version_id, file_state, data FROM manifests INDEXED BY manifests_pending
WHERE file_state <> 1 ORDER BY id LIMIT ?"""
ADD_MANIFEST = "INSERT INTO manifests (version_id, file_state, data) VALUES (?, 0, ?)"
ADD_MANIFESTS = _at_once("INSERT INTO manifests (version_id, file_state, data)", "(?, 0, ?)")
DISCARD_MANIFEST = "UPDATE manifests SET file_state = 2, data = NULL WHERE version_id = ?"
MARK_WRITTEN = "UPDATE manifests SET file_state = 1 WHERE version_id = ? AND file_state = 0"
MARK_REMOVED = "DELETE FROM manifests WHERE version_id = ? AND file_state = 2"

# Segments. A sealed segment is never reopened; a durable length never shrinks.

SEGMENTS = """
SELECT segment_id, state, size, footer_checksum, created_ms, sealed_ms
FROM segments ORDER BY segment_id"""
PUT_SEGMENT = """
INSERT INTO segments (segment_id, state, size, footer_checksum, created_ms, sealed_ms)
VALUES (?, ?, ?, ?, ?, ?)
ON CONFLICT (segment_id) DO UPDATE SET state = excluded.state, size = excluded.size,
    footer_checksum = excluded.footer_checksum, sealed_ms = excluded.sealed_ms
WHERE excluded.state = 'SEALED' OR (segments.state = 'OPEN' AND excluded.size > segments.size)"""

# Multipart uploads. The order of columns is that of `UploadRow` and `PartRow`.

UPLOAD = """
SELECT upload_id, bucket, key, initiated_ms, content_type, details
FROM multipart_uploads WHERE upload_id = ?"""
UPLOADS_FROM = """
SELECT upload_id, bucket, key, initiated_ms, content_type, details
FROM multipart_uploads INDEXED BY uploads_by_key
WHERE bucket = ? AND key >= ? AND key < ? ORDER BY key, upload_id"""
UPLOADS_AFTER = """
SELECT upload_id, bucket, key, initiated_ms, content_type, details
FROM multipart_uploads INDEXED BY uploads_by_key
WHERE bucket = ? AND key = ? AND upload_id > ? ORDER BY upload_id"""
ADD_UPLOAD = """
INSERT INTO multipart_uploads (upload_id, bucket, key, initiated_ms, content_type, details)
VALUES (?, ?, ?, ?, ?, ?)"""
REMOVE_UPLOAD = "DELETE FROM multipart_uploads WHERE upload_id = ?"
FIRST_UPLOADS = """
SELECT upload_id FROM multipart_uploads INDEXED BY uploads_by_key WHERE bucket = ?
ORDER BY key, upload_id LIMIT ?"""
REMOVE_BUCKET_UPLOADS = """
DELETE FROM multipart_uploads INDEXED BY uploads_by_key WHERE bucket = ?"""
REMOVE_BUCKET_PARTS = """
DELETE FROM multipart_parts WHERE upload_id IN (
    SELECT upload_id FROM multipart_uploads INDEXED BY uploads_by_key WHERE bucket = ?
)"""
PARTS = """
SELECT upload_id, number, etag, size, modified_ms, chunks, checksums
FROM multipart_parts WHERE upload_id = ? AND number > ? ORDER BY number LIMIT ?"""
PART_BYTES = """
SELECT coalesce(sum(size), 0) FROM multipart_parts WHERE upload_id = ? AND number <> ?"""
PARTS_BY_ID = """
SELECT id, upload_id, number, etag, size, modified_ms, chunks, checksums
FROM multipart_parts WHERE id > ? ORDER BY id LIMIT ?"""
PUT_PART = """
INSERT INTO multipart_parts (upload_id, number, etag, size, modified_ms, chunks, checksums)
VALUES (?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (upload_id, number) DO UPDATE SET etag = excluded.etag, size = excluded.size,
    modified_ms = excluded.modified_ms, chunks = excluded.chunks, checksums = excluded.checksums"""
REMOVE_PARTS = "DELETE FROM multipart_parts WHERE upload_id = ?"

# Access keys. The order of columns is that of `ApiKeyRow`.

API_KEY = """
SELECT access_key, secret, policy, is_enabled, inflight_max, label, created_ms, last_used_ms
FROM api_keys WHERE access_key = ?"""
API_KEYS = """
SELECT access_key, secret, policy, is_enabled, inflight_max, label, created_ms, last_used_ms
FROM api_keys"""
ADD_API_KEY = """
INSERT INTO api_keys (access_key, secret, policy, is_enabled, inflight_max, label, created_ms,
    last_used_ms)
VALUES (?, ?, ?, ?, ?, ?, ?, ?)"""
ENABLE_API_KEY = "UPDATE api_keys SET is_enabled = ? WHERE access_key = ?"
NOTE_USE_OF_API_KEY = """
UPDATE api_keys SET last_used_ms = max(coalesce(last_used_ms, 0), ?) WHERE access_key = ?"""

# Totals. Each of these reads every row, or an index of every row.

OBJECT_COUNT = "SELECT count(*) FROM objects_current"
SEGMENT_COUNT = "SELECT count(*) FROM segments"
VERSION_TOTALS = "SELECT count(*), coalesce(sum(size), 0) FROM versions"
MANIFEST_COUNT = "SELECT count(*) FROM manifests"

# The operation log.

OPLOG_AFTER = """
SELECT sequence, hlc, site_id, op, bucket, key, version_id, bytes
FROM oplog WHERE sequence > ? ORDER BY sequence LIMIT ?"""
HAS_HISTORY = """
SELECT EXISTS (SELECT 1 FROM oplog) OR EXISTS (SELECT 1 FROM versions)
    OR EXISTS (SELECT 1 FROM buckets)"""
LAST_HLC = "SELECT hlc FROM oplog WHERE sequence = (SELECT max(sequence) FROM oplog)"
ADD_OPLOG = """
INSERT INTO oplog (hlc, site_id, op, bucket, key, version_id, bytes) VALUES (?, ?, ?, ?, ?, ?, ?)"""
ADD_OPLOGS = _at_once(
    "INSERT INTO oplog (hlc, site_id, op, bucket, key, version_id, bytes)",
    "(?, ?, ?, ?, ?, ?, ?)",
)
