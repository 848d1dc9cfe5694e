"""Backups of a whole store: taken beside its writer, kept as snapshots that share their bytes.

    with ReadOnlyStore(root) as store:
        vault = open_vault("/backups/orders", disk=store.disk, runner=store.runner)
        backup = create_backup(store, vault)
        restore(vault, backup.snapshot, "/new", disk=store.disk)

- `catalogue`: what one snapshot holds, as bytes and back; no I/O;
- `vault`: where snapshots and their parts are kept: a folder, or a bucket;
- `copy`: files of the store become parts of the vault, those that are there already are not
  copied again;
- `groups`, `topics`, `logs`, `objects`: what of each engine is copied, and in which order;
- `create`: all of it, one behind the other; `restore`, `check`, `retention`: the rest.

The order is what makes a snapshot of a store that is being written to consistent. Nothing that is
copied refers to something that is copied before it:

1. groups, so that no group is ahead of its topic, and what a consumer wrote before it acked
   (messages, objects) is in the snapshot;
2. topics, then logs: a message may name an object, a log has its cold segments in Tier 2;
3. the metadata of objects, then the segments that these name.

What may be missing: what was acknowledged after the backup began, of each part by itself.
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
