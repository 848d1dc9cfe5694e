"""Seglake: the object store's engine. Buckets, versions and multipart uploads, without HTTP.

- `lake`: the entry point; `buckets`, `objects`, `multipart` and `listing` are its parts;
- writing: `chunking` cuts and hashes a body, `segment_writer` appends, `commit_sink` is the
  barrier;
- reading: `chunk_reader` verifies every chunk before its bytes leave;
- `meta/`: SQLite, which decides what exists; all SQL stands in `meta/statements.py`;
- bytes: `format`, `segment_file`, `bloom`, `manifest`;
- `access_keys`: who may ask; secrets are sealed with `secret_key`, `key_ring` has those in use;
- opening: `segment_recovery` seals what a crash left open.
"""
