"""The metadata of the object store in SQLite: buckets, objects, versions, uploads and segments.

- `database` is the entry point: transactions, the pool of readers, checkpoints and failures.
- `snapshots` gives read-only access, even if there is no database yet.
- `reader` and `writer` have the queries and changes of a transaction; `rows` has the row types.
- `statements` has all SQL except the table definitions; these are in `schema`, as numbered
  migrations, which `migration` applies.
- `connection` opens the file and translates SQLite's errors.
- `wal` makes the write-ahead log durable before anything is read from it.
"""
