"""Seglake, the object store engine: buckets, versions and multipart uploads, without HTTP.

- `lake` is the entry point; its parts are `buckets`, `objects`, `multipart` and `listing`.
- Writing: `body` cuts a body into chunks and hashes them, `segment_writer` appends chunks to
  segments, `commit_sink` commits.
- Reading: `chunk_reader` verifies every chunk before it returns any of its bytes.
- `meta/` is the SQLite database that decides which objects exist; all SQL is in
  `meta/statements.py`.
- Byte formats: `format`, `segment_file`, `bloom`, `manifest`.
- `access_keys` stores the keys that sign requests. `secret_key` encrypts their secrets, and
  `key_ring` caches the keys in use.
- Opening: `segment_recovery` seals the segments that a crash left open.
"""
