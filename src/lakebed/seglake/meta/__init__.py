"""The metadata of the object store in SQLite: buckets, objects, versions, uploads and segments.

- `database` is the entry point: transactions, the pool of readers, checkpoints and failures.
- `snapshots` gives read-only access, also where there is no database yet.
- `reader` and `writer` have the queries and changes of a transaction; `rows` has their values.
- `statements` has all SQL, `schema` the tables as numbered migrations, `migration` applies them.
- `connection` opens the file and translates SQLite's errors.
- `wal` makes the write-ahead log durable before anything is read from it.
"""
