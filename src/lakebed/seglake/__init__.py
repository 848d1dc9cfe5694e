"""Seglake, the object store engine: buckets, versions and multipart uploads, without HTTP.

- `lake` is the entry point; its parts are `buckets`, `objects`, `multipart` and `listing`.
- Writing: `body` cuts an uploaded body into chunks and hashes them, `segment_writer` appends the
  chunks to segments, and `commit_sink` commits changes.
- Reading: `chunk_reader` verifies every chunk before it returns any of its bytes.
- `meta/` is the SQLite database that decides which objects exist; all SQL except the table
  definitions is in `meta/statements.py`.
- Byte formats are in `format`, `segment_file`, `bloom` and `manifest`.
- `access_keys` stores the keys that sign requests. `secret_key` encrypts their secrets, and
  `key_ring` caches the keys in use.
- When a store is opened, `segment_recovery` seals the segments that a crash left open.
"""
