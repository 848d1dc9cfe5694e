"""Whose backups a place has: it takes those of one store, and refuses all others.

The place knows its store by when that was made. A root that only a bare log manager ever wrote to
does not say that, and is 0 there: such a place knows its root by the logs in its newest backup.
Once the root was opened as a store, or restored as one, it says so, and the place notes that.
"""

from __future__ import annotations

import contextlib

from lakebed.aof.identity import load_identity
from lakebed.aof.paths import LogPaths
from lakebed.base.errors import Corrupt, DataError, NotFound, UnknownVersion
from lakebed.store.backup.catalogue import Snapshot
from lakebed.store.backup.vault import Vault
from lakebed.store.logs import log_names
from lakebed.store.read_only import ReadOnlyStore


def begin_backup(vault: Vault, store: ReadOnlyStore) -> Snapshot | None:
    """`InputError` unless it is the place of that store's backups; the newest of these."""
    created_ms = 0 if store.version is None else store.version.created_ms
    vault.begin(store_created_ms=created_ms, is_ours=lambda: _has_a_log_of(vault, store))
    return _newest(vault)


def _has_a_log_of(vault: Vault, store: ReadOnlyStore) -> bool:
    """Whether a log is in both, or one of them has none: then nothing speaks against it."""
    snapshot = _newest(vault)
    theirs = [] if snapshot is None else _identities(vault, snapshot)
    ours = []
    for name in log_names(store.disk, store.root):
        with contextlib.suppress(NotFound, DataError):
            ours.append(load_identity(store.disk, LogPaths(store.root, name)).stream.encode())
    return not theirs or not ours or any(stream in data for stream in ours for data in theirs)


def _identities(vault: Vault, snapshot: Snapshot) -> list[bytes]:
    """What says of each log in a backup which one it is."""
    found = []
    for file in snapshot.files:
        top, _, rest = file.path.partition("/")
        if top == "aof" and rest.partition("/")[2] == "log.json":
            sizes = file.part_sizes(snapshot.part_bytes)
            with contextlib.suppress(Corrupt):
                parts = zip(file.parts, sizes, strict=True)
                found.append(b"".join(vault.part(digest, size=size) for digest, size in parts))
    return found


def _newest(vault: Vault) -> Snapshot | None:
    """The last snapshot that can be read."""
    for snapshot_id in reversed(vault.snapshot_ids()):
        try:
            return vault.snapshot(snapshot_id)
        except UnknownVersion:
            raise
        except (DataError, NotFound):
            continue
    return None
