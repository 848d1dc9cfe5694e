"""Metadata in SQLite: which buckets, objects, versions, uploads and segments there are.

- `database`: the entry point; transactions, the pool of readers, checkpoints, failures;
- `snapshots`: for whoever only reads, also where there is no database yet;
- `reader`, `writer`: what can be asked and changed inside a transaction, in `rows`;
- `statements`: all SQL; `schema`: the tables, as numbered migrations; `migration` applies them;
- `connection`: how a file is opened, and what SQLite's errors mean here;
- `wal`: the write-ahead log is made durable before anything is read from it.
"""
