"""Letting go of old backups: the last few snapshots stay, and the parts that these name.

Catalogues go first, then parts: cut anywhere, every snapshot that is left has all of its parts.
As long as one that stays cannot be read, no part is removed, for nobody knows which it needs.
"""

from __future__ import annotations

from typing import NamedTuple

from lakebed.base.errors import InputError
from lakebed.store.backup.vault import Vault


class RemovedSnapshots(NamedTuple):
    """What went."""

    snapshot_ids: tuple[str, ...]
    part_count: int
    part_bytes: int


def keep_snapshots(vault: Vault, count: int) -> RemovedSnapshots:
    """Keep the last `count` snapshots, and nothing that they do not need."""
    if count < 1:
        raise InputError(f"--keep {count}: at least one backup is kept")
    with vault.lock():
        ids = vault.snapshot_ids()
        kept, gone = ids[-count:], ids[:-count]
        needed: set[str] = set()
        for snapshot_id in kept:
            needed |= vault.snapshot(snapshot_id).parts().keys()
        for snapshot_id in gone:
            vault.delete_snapshot(snapshot_id)
        surplus = {digest: size for digest, size in vault.pool().items() if digest not in needed}
        for digest in surplus:
            vault.delete_part(digest)
    return RemovedSnapshots(tuple(gone), len(surplus), sum(surplus.values()))
