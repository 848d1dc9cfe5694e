"""Backups of a whole store, taken while it is in use; snapshots share bytes that are the same.

    with ReadOnlyStore(root) as store:
        vault = open_vault("/backups/orders", disk=store.disk, runner=store.runner)
        backup = create_backup(store, vault)
        restore(vault, backup.snapshot, "/new", disk=store.disk)

- `catalogue`: encodes and decodes the content of one snapshot; no I/O.
- `vault`: stores snapshots and their parts, in a folder or a bucket.
- `copy`: copies files of the store to the vault, except parts that the vault already has.
- `groups`, `topics`, `logs`, `objects`: copy the files of each engine.
- `create` takes a backup; `check` verifies it, `restore` restores it, and `retention` removes it.

A snapshot is consistent although the store is being written, because the data that a file refers to
is copied after that file:

1. Groups first, so that no group is ahead of its topic, and everything that a consumer wrote before
   it acked (messages, objects) is in the snapshot.
2. Topics, then logs, both before the objects: a message may name an object, and the cold segments
   of a log may be objects.
3. The metadata of objects, then the segments that it names.

What may be missing: data that became durable after the backup began. Each group, partition and log
is copied as of its own moment, and all objects are copied as of one moment.
"""

from lakebed.store.backup.catalogue import BackedFile, Snapshot
from lakebed.store.backup.check import CheckReport, check_snapshot
from lakebed.store.backup.create import CreatedBackup, create_backup
from lakebed.store.backup.restore import DamagedBackup, RestoreReport, restore
from lakebed.store.backup.retention import RemovedSnapshots, keep_snapshots
from lakebed.store.backup.vault import Vault, open_vault

__all__ = [
    "BackedFile",
    "CheckReport",
    "CreatedBackup",
    "DamagedBackup",
    "RemovedSnapshots",
    "RestoreReport",
    "Snapshot",
    "Vault",
    "check_snapshot",
    "create_backup",
    "keep_snapshots",
    "open_vault",
    "restore",
]
