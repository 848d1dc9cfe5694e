"""The tables of the metadata, as numbered migrations. A released migration is never edited.

Keys are blobs of UTF-8, so they sort bytewise. The cost of a put depends on the number of B-trees
that it changes: each B-tree that is changed at a random position adds a page to the write-ahead
log.

- `manifests` assigns the internal `id` of a version. Ids grow, so rows are appended to `manifests`
  and `versions`. The row of a removed version stays in `manifests` until its manifest file is
  removed.
- `versions_by_key` lists the versions of a key newest first; the first is the current version.
- `objects_current` holds objects only: a key whose newest version is a delete marker has no row
  there, so listings never read delete markers.
- `versions_null` finds a key's null version, and ensures that a key has at most one.
- `oplog` is in the order of the hybrid clock: its last row has the largest time.
"""

from __future__ import annotations

APPLICATION_ID = 0x53474C44  # "SGLD": identifies a database of this program

_CORE = """
CREATE TABLE site (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    site_id TEXT NOT NULL
) STRICT;
INSERT INTO site VALUES (1, lower(hex(randomblob(8))));

CREATE TABLE buckets (
    name TEXT PRIMARY KEY,
    created_ms INTEGER NOT NULL,
    versioning TEXT NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE manifests (
    id INTEGER PRIMARY KEY,
    version_id TEXT NOT NULL UNIQUE,
    file_state INTEGER NOT NULL,
    data BLOB
) STRICT;
CREATE INDEX manifests_pending ON manifests (id) WHERE file_state <> 1;

CREATE TABLE versions (
    id INTEGER PRIMARY KEY,
    version_id TEXT NOT NULL,
    bucket TEXT NOT NULL,
    key BLOB NOT NULL,
    state TEXT NOT NULL,
    is_null INTEGER NOT NULL,
    etag TEXT NOT NULL,
    size INTEGER NOT NULL,
    content_type TEXT,
    last_modified_utc INTEGER NOT NULL,
    hlc TEXT NOT NULL,
    site_id TEXT NOT NULL
) STRICT;
CREATE UNIQUE INDEX versions_by_key ON versions (bucket, key, hlc DESC, site_id DESC);
CREATE UNIQUE INDEX versions_null ON versions (bucket, key) WHERE is_null <> 0;

CREATE TABLE objects_current (
    bucket TEXT NOT NULL,
    key BLOB NOT NULL,
    manifest INTEGER NOT NULL,
    version_id TEXT NOT NULL,
    state TEXT NOT NULL,
    is_null INTEGER NOT NULL,
    etag TEXT NOT NULL,
    size INTEGER NOT NULL,
    content_type TEXT,
    last_modified_utc INTEGER NOT NULL,
    hlc TEXT NOT NULL,
    site_id TEXT NOT NULL,
    PRIMARY KEY (bucket, key)
) STRICT, WITHOUT ROWID;

CREATE TABLE segments (
    segment_id TEXT PRIMARY KEY,
    state TEXT NOT NULL,
    size INTEGER NOT NULL,
    footer_checksum BLOB,
    created_ms INTEGER NOT NULL,
    sealed_ms INTEGER
) STRICT, WITHOUT ROWID;

CREATE TABLE multipart_uploads (
    upload_id TEXT PRIMARY KEY,
    bucket TEXT NOT NULL,
    key BLOB NOT NULL,
    initiated_ms INTEGER NOT NULL,
    content_type TEXT,
    details TEXT NOT NULL
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX uploads_by_key ON multipart_uploads (bucket, key, upload_id);

CREATE TABLE multipart_parts (
    id INTEGER PRIMARY KEY,
    upload_id TEXT NOT NULL,
    number INTEGER NOT NULL,
    etag TEXT NOT NULL,
    size INTEGER NOT NULL,
    modified_ms INTEGER NOT NULL,
    chunks BLOB NOT NULL,
    checksums TEXT NOT NULL,
    UNIQUE (upload_id, number)
) STRICT;

CREATE TABLE oplog (
    sequence INTEGER PRIMARY KEY,
    hlc TEXT NOT NULL,
    site_id TEXT NOT NULL,
    op TEXT NOT NULL,
    bucket TEXT NOT NULL,
    key BLOB NOT NULL,
    version_id TEXT NOT NULL,
    bytes INTEGER NOT NULL
) STRICT;
"""

_ADMINISTRATION = """
CREATE TABLE api_keys (
    access_key TEXT PRIMARY KEY,
    secret BLOB NOT NULL,
    policy TEXT NOT NULL DEFAULT 'rw',
    is_enabled INTEGER NOT NULL DEFAULT 1,
    inflight_max INTEGER,
    label TEXT,
    created_ms INTEGER NOT NULL,
    last_used_ms INTEGER
) STRICT, WITHOUT ROWID;

CREATE TABLE api_key_bucket_allow (
    access_key TEXT NOT NULL,
    bucket TEXT NOT NULL,
    PRIMARY KEY (access_key, bucket)
) STRICT, WITHOUT ROWID;

CREATE TABLE bucket_policies (
    bucket TEXT PRIMARY KEY,
    policy TEXT NOT NULL,
    updated_ms INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE rebuild_state (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    state TEXT NOT NULL,
    last_version_id TEXT NOT NULL DEFAULT '',
    started_ms INTEGER NOT NULL,
    finished_ms INTEGER
) STRICT;

CREATE TABLE ops_runs (
    id INTEGER PRIMARY KEY,
    mode TEXT NOT NULL,
    started_ms INTEGER NOT NULL,
    finished_ms INTEGER,
    errors INTEGER NOT NULL DEFAULT 0,
    reclaimed_bytes INTEGER NOT NULL DEFAULT 0,
    rewritten_bytes INTEGER NOT NULL DEFAULT 0,
    report TEXT
) STRICT;
CREATE INDEX ops_runs_by_mode ON ops_runs (mode, finished_ms);

CREATE TABLE repl_state (
    remote TEXT PRIMARY KEY,
    last_pull_hlc TEXT NOT NULL DEFAULT '',
    last_pull_sequence INTEGER NOT NULL DEFAULT 0,
    last_push_hlc TEXT NOT NULL DEFAULT '',
    last_push_sequence INTEGER NOT NULL DEFAULT 0,
    updated_ms INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE repl_state_remote (
    remote TEXT NOT NULL,
    site_id TEXT NOT NULL,
    last_hlc TEXT NOT NULL DEFAULT '',
    updated_ms INTEGER NOT NULL,
    PRIMARY KEY (remote, site_id)
) STRICT, WITHOUT ROWID;

CREATE TABLE repl_metrics (
    name TEXT PRIMARY KEY,
    value INTEGER NOT NULL DEFAULT 0
) STRICT, WITHOUT ROWID;
"""

_FEWER_INDEXES = """
DROP INDEX IF EXISTS versions_data;
DROP INDEX IF EXISTS versions_by_hlc;
DROP INDEX IF EXISTS oplog_by_hlc;
"""

MIGRATIONS: tuple[str, ...] = (_CORE + _ADMINISTRATION, _FEWER_INDEXES)
"""All migrations, numbered from 1. The first creates all tables of the specification."""
