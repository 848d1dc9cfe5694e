"""Removes old backups: keeps the newest snapshots and the parts that they need.

Catalogues are removed first, then parts, so an interruption never leaves a snapshot without its
parts. If a snapshot that is to be kept cannot be read, nothing is removed, because it is not known
which parts it needs.
"""

from __future__ import annotations

from typing import NamedTuple

from lakebed.base.errors import InputError
from lakebed.store.backup.vault import Vault


class RemovedSnapshots(NamedTuple):
    """The ids of the snapshots that were removed, and the number and size of the removed parts."""

    snapshot_ids: tuple[str, ...]
    part_count: int
    part_bytes: int


def keep_snapshots(vault: Vault, count: int) -> RemovedSnapshots:
    """Keeps the newest `count` snapshots with their parts; removes all other snapshots and parts.

    Raises a `DataError`, and removes nothing, if a snapshot that is to be kept is damaged.
    """
    if count < 1:
        raise InputError(f"--keep {count}: the number of backups to keep must be 1 or more")
    with vault.lock():
        ids = vault.snapshot_ids()
        kept, removed = ids[-count:], ids[:-count]
        needed: set[str] = set()
        for snapshot_id in kept:
            needed |= vault.snapshot(snapshot_id).parts().keys()
        for snapshot_id in removed:
            vault.delete_snapshot(snapshot_id)
        surplus = {digest: size for digest, size in vault.pool().items() if digest not in needed}
        for digest in surplus:
            vault.delete_part(digest)
    return RemovedSnapshots(tuple(removed), len(surplus), sum(surplus.values()))
