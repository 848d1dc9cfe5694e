"""Ensures that a vault has the backups of only one store.

The vault identifies its store by the store's creation time. A root that was never opened as a
store, because only an `AofManager` wrote logs to it, has no creation time; then the vault records
0, and identifies the root by the logs in its newest backup. Once the root has been opened as a
store, it has a creation time, and the next backup records that time in the vault.
"""

from __future__ import annotations

import contextlib

from lakebed.aof.identity import load_identity
from lakebed.aof.paths import LogPaths
from lakebed.base.errors import Corrupt, DataError, DiskError, NotFound, UnknownVersion
from lakebed.store.backup.catalogue import Snapshot
from lakebed.store.backup.vault import Vault
from lakebed.store.logs import log_names
from lakebed.store.read_only import ReadOnlyStore


def begin_backup(vault: Vault, store: ReadOnlyStore) -> Snapshot | None:
    """Assigns a new vault to this store, or checks that the vault belongs to this store.

    Returns the vault's newest readable snapshot; None if there is none. Raises `InputError` if the
    vault has the backups of another store, or if there is no vault yet but there are other files.
    """
    created_ms = 0 if store.version is None else store.version.created_ms
    vault.begin(store_created_ms=created_ms, is_ours=lambda: _has_a_log_of(vault, store))
    return _newest(vault)


def _has_a_log_of(vault: Vault, store: ReadOnlyStore) -> bool:
    """Whether the newest backup and the store have a log in common, or one of them has no logs.

    Logs whose `log.json` cannot be read are ignored.
    """
    snapshot = _newest(vault)
    vault_identities = [] if snapshot is None else _identities(vault, snapshot)
    store_streams = []
    for name in log_names(store.disk, store.root):
        with contextlib.suppress(NotFound, DataError, DiskError):
            store_streams.append(
                load_identity(store.disk, LogPaths(store.root, name)).stream.encode()
            )
    return (
        not vault_identities
        or not store_streams
        or any(stream in data for stream in store_streams for data in vault_identities)
    )


def _identities(vault: Vault, snapshot: Snapshot) -> list[bytes]:
    """Returns the contents of the `log.json` files in a snapshot; damaged files are left out."""
    identities = []
    for file in snapshot.files:
        top, _, below = file.path.partition("/")
        if top == "aof" and below.partition("/")[2] == "log.json":
            sizes = file.part_sizes(snapshot.part_bytes)
            with contextlib.suppress(Corrupt):
                parts = zip(file.parts, sizes, strict=True)
                identities.append(b"".join(vault.part(digest, size=size) for digest, size in parts))
    return identities


def _newest(vault: Vault) -> Snapshot | None:
    """Returns the newest snapshot that can be read; None if there is none.

    Raises `UnknownVersion` if a newer snapshot has another version.
    """
    for snapshot_id in reversed(vault.snapshot_ids()):
        try:
            return vault.snapshot(snapshot_id)
        except UnknownVersion:
            raise
        except (DataError, NotFound):
            continue
    return None
